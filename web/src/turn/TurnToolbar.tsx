// What can be done with a turn of the gateway, and the ways to others: the same beside its answer and its request.
import { TurnActions } from "../act/TurnActions.tsx";
import { ask } from "../api/client.ts";
import type { Trace } from "../api/types.ts";
import { DeleteTurn } from "../keeping/DeleteTurn.tsx";
import { ViewLinks } from "../request/TurnRequest.tsx";
import { formatRoute, go } from "../router.ts";
import { SessionPlace } from "../runs/SessionPlace.tsx";
import { Icon } from "../ui/Icon.tsx";
import { DownloadButton } from "./DownloadButton.tsx";

interface Props {
  id: string;
  trace: Trace;
  /** The address: which view of the turn is shown. */
  query: Record<string, string>;
  error: string;
}

export function TurnToolbar({ id, trace, query, error }: Props) {
  const { view = "", tab = "" } = query;
  return (
    <>
      {error && <span class="error">{error}</span>}
      <SessionPlace id={id} query={{ view, tab }} />
      <ViewLinks id={id} view={view} />
      <TurnActions id={id} trace={trace} />
      <DownloadButton
        trace={trace}
        make={async (others) => {
          const asked = new URLSearchParams({ as: trace.consumer, with: others.join(",") });
          return (await ask(`/inspector/turns/${encodeURIComponent(id)}/export?${asked}`)).blob();
        }}
        name={trace.title}
      />
      <DeleteTurn key={id} id={id} possible={trace.done && (trace.row?.held ?? false)} onDone={() => go("streams")} />
      <a class="button turn-back" href={formatRoute("streams")}>
        <Icon name="left" /> Streams
      </a>
    </>
  );
}
