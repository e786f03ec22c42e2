// Asks for sessions, and again when turns have begun or ended meanwhile.
import { useEffect, useState } from "preact/hooks";
import { askJson, explain } from "../api/client.ts";
import { rows } from "../streams/live.ts";

const PAUSE = 700; // milliseconds between two questions, while turns come in

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
    return () => {
      gone.abort();
      stop();
      clearTimeout(timer);
    };
  }, [path]);
  return { found, error };
}

/** Changes when a turn begins or ends. */
function signature(): string {
  const first = rows.value[0];
  const running = rows.value.filter(({ state }) => state === "open" || state === "streaming").length;
  return `${rows.value.length} ${first?.id ?? ""} ${running}`;
}
