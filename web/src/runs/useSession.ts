// Asks for sessions, and again when turns have begun or ended meanwhile; while one runs, every few seconds.
import { useEffect, useState } from "preact/hooks";
import { askJson, explain } from "../api/client.ts";
import { isRunning } from "../streams/listing.ts";
import { clockAhead, rows } from "../streams/live.ts";

const PAUSE = 700; // milliseconds between two questions, while turns come in
const AGAIN = 4000; // milliseconds: a running turn may have stalled
const SECOND = 1000;

/** The gateway's time in seconds; while something runs, it is drawn again each second. */
export function useNow(running: boolean): number {
  const [, setCount] = useState(0);
  useEffect(() => {
    if (!running) return;
    const timer = setInterval(() => setCount((count) => count + 1), SECOND);
    return () => clearInterval(timer);
  }, [running]);
  return Date.now() / 1000 - clockAhead.value;
}

export function useFresh<T>(path: string): { found: T | null; error: string } {
  const [found, setFound] = useState<T | null>(null);
  const [error, setError] = useState("");
  useEffect(() => {
    const gone = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let known = signature();
    let asked = 0;
    const refresh = async () => {
      timer = undefined;
      known = signature();
      const number = ++asked;
      try {
        const answer = await askJson<T>(path, { signal: gone.signal });
        if (number !== asked) return; // a later answer may be here already
        setFound(answer);
        setError("");
      } catch (why) {
        if (!gone.signal.aborted && number === asked) setError(explain(why));
      }
    };
    void refresh();
    const stop = rows.subscribe(() => {
      if (timer === undefined && signature() !== known) timer = setTimeout(() => void refresh(), PAUSE);
    });
    const again = setInterval(() => {
      if (timer === undefined && countRunning() > 0) void refresh();
    }, AGAIN);
    return () => {
      gone.abort();
      stop();
      clearInterval(again);
      clearTimeout(timer);
    };
  }, [path]);
  return { found, error };
}

/** Changes when a turn begins or ends. */
function signature(): string {
  const first = rows.value[0];
  return `${rows.value.length} ${first?.id ?? ""} ${countRunning()}`;
}

function countRunning(): number {
  return rows.value.filter(isRunning).length;
}
