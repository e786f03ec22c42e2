// A turn's trace, asked for once and followed while the turn runs.
import { useEffect, useState } from "preact/hooks";
import { explain, listen } from "../api/client.ts";
import type { Additions, Trace } from "../api/types.ts";
import { rowOf } from "../streams/live.ts";
import { extended } from "../turn/extending.ts";

export interface LoadedTrace {
  trace: Trace | null;
  error: string;
}

export function useTrace(id: string): LoadedTrace {
  const [trace, setTrace] = useState<Trace | null>(null);
  const [error, setError] = useState("");
  useEffect(() => {
    if (!id) return;
    const stop = new AbortController();
    setTrace(null);
    setError("");
    follow(id, stop.signal, setTrace).catch((why) => stop.signal.aborted || setError(explain(why)));
    return () => stop.abort();
  }, [id]);
  const row = rowOf(id); // the list hears of the turn's end, and of its cost
  return { trace: trace && row ? { ...trace, row } : trace, error };
}

type SetTrace = (change: (old: Trace | null) => Trace | null) => void;

async function follow(id: string, signal: AbortSignal, set: SetTrace): Promise<void> {
  for await (const { event, data } of listen(`/inspector/turns/${encodeURIComponent(id)}/follow`, signal)) {
    if (signal.aborted) return;
    const said = JSON.parse(data) as Trace | Additions;
    if (event === "trace") set(() => said as Trace);
    else if (event === "more") set((old) => (old ? extended(old, said) : old));
  }
}
