// Both halves of a turn's request, asked for when somebody looks; again when the turn may know more.
import { useEffect, useState } from "preact/hooks";
import { askText, explain, Refusal } from "../api/client.ts";
import type { Trace } from "../api/types.ts";
import { copyText, hasLongNumbers, parseJson, valueAt } from "./tree.ts";
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

const AGAIN = 3000; // milliseconds: a try may have ended

/** Whether no provider has answered yet: each try may still fail, and another one may follow. */
export function awaitsAnswer({ done, frames, events }: Pick<Trace, "done" | "frames" | "events">): boolean {
  return !done && frames.length + events.length === 0;
}

/** `turn`: what the request is of; it is asked for anew when that changes, and not yet if it is null. `waits`: it is
 * asked for every few seconds too, and once more afterwards. Without `load` nothing is known. */
export function useRequest(load: LoadRequest | undefined, turn: string | null, waits = false): Loaded {
  const [loaded, setLoaded] = useState<Loaded>(NOTHING);
  useEffect(() => {
    let gone = false;
    if (!load) {
      setLoaded({ ...NOTHING, unknown: true });
      return;
    }
    if (turn === null) return;
    const refresh = () =>
      load().then(
        (view) => gone || setLoaded(loadedOf(view)),
        (why) => gone || setLoaded((old) => (old.view && waits ? old : failureOf(why))),
      );
    void refresh();
    const again = waits ? setInterval(refresh, AGAIN) : undefined;
    return () => {
      gone = true;
      clearInterval(again);
    };
  }, [turn, waits, load === undefined]);
  return loaded;
}

/** Asks for a request. The digits of long numbers are kept in `canonical_text`. */
export async function askRequest(path: string): Promise<RequestView> {
  const text = await askText(path);
  const view = JSON.parse(text) as RequestView;
  const canonical = view.canonical && hasLongNumbers(text) ? valueAt(parseJson(text) ?? null, "/canonical") : undefined;
  return canonical === undefined ? view : { ...view, canonical_text: copyText(canonical) };
}

/** The canonical form as JSON; "" if there is none. */
export function canonicalText({ canonical, canonical_text }: RequestView): string {
  return canonical_text ?? (canonical ? JSON.stringify(canonical) : "");
}

function loadedOf(view: RequestView): Loaded {
  if (view.kept) return { view, error: "", unknown: false };
  return { ...NOTHING, error: view.canonical_error, unknown: true };
}

function failureOf(why: unknown): Loaded {
  return { view: null, error: explain(why), unknown: why instanceof Refusal && why.status === 404 };
}
