// Rows of the admin API for a view: asked for at first, on `refresh`, and when the window gets the focus again.
import { useCallback, useEffect, useState } from "preact/hooks";
import { describe } from "./api.ts";

export function useRows<T>(load: () => Promise<T>): { rows: T | null; error: string; refresh: () => void } {
  const [rows, setRows] = useState<T | null>(null);
  const [error, setError] = useState("");
  const [asks, setAsks] = useState(0);
  const refresh = useCallback(() => setAsks((count) => count + 1), []);
  useEffect(() => {
    addEventListener("focus", refresh);
    return () => removeEventListener("focus", refresh);
  }, [refresh]);
  useEffect(() => {
    let gone = false;
    load()
      .then((found) => {
        if (gone) return;
        setRows(found);
        setError("");
      })
      .catch((why) => {
        if (!gone) setError(describe(why));
      });
    return () => {
      gone = true;
    };
  }, [load, asks]);
  return { rows, error, refresh };
}
