// The view of a turn's request, below the same head as the turn: `#/turn/ID?view=request&tab=upstream`.
import "../turn/turn.css";
import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import { askJson } from "../api/client.ts";
import type { Trace } from "../api/types.ts";
import { formatRoute, go, replaceQuery } from "../router.ts";
import { TurnHead } from "../turn/TurnHead.tsx";
import { formatTurnName } from "../turn/turnName.ts";
import { useKeys } from "../ui/keys.ts";
import { useSubject } from "../ui/title.ts";
import { RequestPage } from "./RequestPage.tsx";
import { askRequest, awaitsAnswer, type Loaded, useRequest } from "./useRequest.ts";

const base = (id: string) => `/inspector/turns/${encodeURIComponent(id)}`;

interface Props {
  id: string;
  trace: Trace;
  /** The tries and the losses: the request is asked for again when they change. */
  notes: Loaded;
  query: Record<string, string>;
  children?: ComponentChildren;
}

export function TurnRequest({ id, trace, notes, query, children }: Props) {
  const turn = useMemo(() => (isKnown(notes) ? `${id} ${JSON.stringify(notes)}` : null), [id, notes]);
  const loaded = useRequest(() => askRequest(`${base(id)}/request`), turn);
  useKeys("This request", [{ keys: ["Escape"], label: "Back to the answer", run: () => go("turn", id) }]);
  useSubject(formatTurnName(trace));
  const sentAs = loaded.view?.attempts.at(-1)?.attempt.protocol ?? trace.row?.upstream ?? "";
  return (
    <section class="turn" aria-label="The request of a turn">
      <TurnHead trace={trace} sentAs={sentAs}>
        {children}
      </TurnHead>
      <RequestPage
        loaded={loaded}
        row={trace.row}
        done={trace.done}
        breakdown={() => askJson(`${base(id)}/breakdown`)}
        tab={query.tab ?? ""}
        onTab={(tab) => replaceQuery({ ...query, tab })}
      />
    </section>
  );
}

function isKnown({ view, error, unknown }: Loaded): boolean {
  return view !== null || error !== "" || unknown;
}

/** The tries and the losses of a turn, without the bodies: for its notes. Asked for repeatedly until the answer begins. */
export function useRequestNotes(id: string, trace: Trace | null): Loaded {
  const { provider, model, tries } = trace?.row ?? {};
  const turn = trace && [id, trace.done, provider, model, tries].join(" ");
  return useRequest(() => askJson(`${base(id)}/request?bodies=none`), turn, trace !== null && awaitsAnswer(trace));
}

/** From the answer to the request and back. */
export function ViewLinks({ id, view }: { id: string; view: string }) {
  const current = view === "request";
  return (
    <nav class="view-links" aria-label="Parts of the turn">
      <a class="button" href={formatRoute("turn", id)} aria-current={current ? undefined : "page"}>
        Answer
      </a>
      <a class="button" href={formatRoute("turn", id, { view: "request" })} aria-current={current ? "page" : undefined}>
        Request
      </a>
    </nav>
  );
}
