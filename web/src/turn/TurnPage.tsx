// One turn of the gateway, by its id: asked for, and followed while it is live.
import { useEffect, useMemo, useState } from "preact/hooks";
import { askJson, askText, explain, FIRST_WAIT, LONGEST_WAIT, listen, pause, Refusal } from "../api/client.ts";
import type { Additions, Trace } from "../api/types.ts";
import { TurnRequest, useRequestNotes } from "../request/TurnRequest.tsx";
import { formatRoute, go, replaceQuery } from "../router.ts";
import { rowOf } from "../streams/live.ts";
import { useKeys } from "../ui/keys.ts";
import { TurnToolbar } from "./TurnToolbar.tsx";
import { TurnView } from "./TurnView.tsx";
import { type SetTrace, UpdateBuffer } from "./updateBuffer.ts";

interface Props {
  id: string;
  query: Record<string, string>;
}

export function TurnPage({ id, query }: Props) {
  const { as = "" } = query;
  const { trace: traced, error } = useTurn(id, as);
  const row = rowOf(id);
  // The list hears of the turn's end too, and of its cost; all else about the trace stays the same object.
  const trace = useMemo(() => traced && { ...traced, row: row ?? traced.row }, [traced, row]);
  const leave = () => go("streams");
  const notes = useRequestNotes(id, trace);
  useKeys("This turn", [{ keys: ["Escape"], label: "Leave", run: leave }], !trace);
  if (!trace) {
    return (
      <div class="notice">
        <h1>{error ? "This turn cannot be shown" : "Asking for the turn …"}</h1>
        {error && <p>{error}</p>}
        <p>
          <a href={formatRoute("streams")}>Back to the streams</a>
        </p>
      </div>
    );
  }
  const base = `/inspector/turns/${encodeURIComponent(id)}`;
  const tools = <TurnToolbar {...{ id, trace, query, error }} />;
  if (query.view === "request") {
    return (
      <TurnRequest key={id} id={id} trace={trace} notes={notes} query={query}>
        {tools}
      </TurnRequest>
    );
  }
  return (
    <TurnView
      trace={trace}
      request={notes}
      onConsumer={(consumer) => replaceQuery({ ...query, as: consumer })}
      onLeave={leave}
      breakdown={() => askJson(`${base}/breakdown`)}
      whole={(column, index) => askText(`${base}/${column}/${index}?as=${encodeURIComponent(trace.consumer)}`)}
    >
      {tools}
    </TurnView>
  );
}

/** The trace as it grows. The one before stays until the next has come, so that a switch of consumers does not flicker. */
function useTurn(id: string, as: string): { trace: Trace | null; error: string } {
  const [trace, setTrace] = useState<Trace | null>(null);
  const [error, setError] = useState("");
  useEffect(() => {
    const stop = new AbortController();
    const path = `/inspector/turns/${encodeURIComponent(id)}/follow${as ? `?as=${encodeURIComponent(as)}` : ""}`;
    setError("");
    void follow(path, stop.signal, setTrace, setError);
    return () => stop.abort();
  }, [id, as]);
  return { trace, error };
}

/** Until the turn is over; a connection that is lost is made again, and begins anew. */
async function follow(path: string, signal: AbortSignal, set: SetTrace, tell: (error: string) => void): Promise<void> {
  for (let wait = FIRST_WAIT; !signal.aborted; wait = Math.min(wait * 2, LONGEST_WAIT)) {
    try {
      if (await followOnce(path, signal, set)) return tell("");
    } catch (error) {
      if (signal.aborted) return;
      tell(explain(error));
      if (error instanceof Refusal) return;
    }
    await pause(wait, signal);
  }
}

/** Whether the turn was over when the connection was. */
async function followOnce(path: string, signal: AbortSignal, set: SetTrace): Promise<boolean> {
  let done = false;
  const grow = new UpdateBuffer(set, signal);
  for await (const message of listen(path, signal)) {
    if (signal.aborted) return true;
    const said = JSON.parse(message.data) as Trace | Additions;
    done = said.done;
    if (message.event === "trace") set(() => said as Trace);
    else if (message.event === "more") grow.add(said);
  }
  grow.flush();
  return done;
}
