// Both halves of a turn's request, asked for when somebody looks; again when the turn has ended.
import { useEffect, useState } from "preact/hooks";
import { explain, Refusal } from "../api/client.ts";
import type { RequestView } from "./types.ts";

export type LoadRequest = () => Promise<RequestView>;

export interface Loaded {
  view: RequestView | null;
  /** Why there is none. */
  error: string;
  /** The gateway has not kept it: nothing is known. */
  unknown: boolean;
}

const NOTHING: Loaded = { view: null, error: "", unknown: false };

/** `turn`: what the request is of; it is asked for anew when that changes. Without `load` nothing is known. */
export function useRequest(load: LoadRequest | undefined, turn: string): Loaded {
  const [loaded, setLoaded] = useState<Loaded>(NOTHING);
  useEffect(() => {
    let gone = false;
    if (!load) {
      setLoaded({ ...NOTHING, unknown: true });
      return;
    }
    load().then(
      (view) =>
        gone ||
        setLoaded(
          view.kept ? { view, error: "", unknown: false } : { ...NOTHING, error: view.canonical_error, unknown: true },
        ),
      (why) =>
        gone || setLoaded({ view: null, error: explain(why), unknown: why instanceof Refusal && why.status === 404 }),
    );
    return () => {
      gone = true;
    };
  }, [turn, load === undefined]);
  return loaded;
}
