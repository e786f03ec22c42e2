// Asks for sessions, and again when turns have begun or ended meanwhile; while one runs, every few seconds.
import { useEffect, useState } from "preact/hooks";
import { askJson, explain } from "../api/client.ts";
import { isRunning } from "../streams/listing.ts";
import { clockAhead, rows } from "../streams/live.ts";
import { Refresher } from "./refresher.ts";

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

/** Asks for `path`, and again when turns have begun or ended. `quiet`: only then, and not while the page is hidden. */
export function useFresh<T>(path: string, quiet = false): { found: T | null; error: string } {
  const [found, setFound] = useState<T | null>(null);
  const [error, setError] = useState("");
  useEffect(() => {
    const gone = new AbortController();
    const ask = async () => {
      try {
        const answer = await askJson<T>(path, { signal: gone.signal });
        if (gone.signal.aborted) return;
        setFound(answer);
        setError("");
      } catch (why) {
        if (!gone.signal.aborted) setError(explain(why));
      }
    };
    const refresher = new Refresher({ ask, signature, isPaused: () => quiet && document.hidden });
    void refresher.refresh();
    const stop = rows.subscribe(() => refresher.check());
    const seen = () => void refresher.refresh();
    if (quiet) document.addEventListener("visibilitychange", seen, { signal: gone.signal });
    const repeat = () => {
      if (countRunning() > 0) void refresher.refresh();
    };
    const again = quiet ? undefined : setInterval(repeat, AGAIN);
    return () => {
      gone.abort();
      stop();
      refresher.stop();
      clearInterval(again);
    };
  }, [path, quiet]);
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
