// Looks for what the find bar asks, whenever that or the trace changes.
import { useEffect, useMemo } from "preact/hooks";
import type { Trace } from "../api/types.ts";
import {
  eventText,
  type FindQuery,
  findHits,
  isEmpty,
  type Matcher,
  partTexts,
  plainMatcher,
  searchedText,
} from "./find.ts";
import type { Lane } from "./lanes.ts";
import type { TurnModel } from "./model.ts";
import type { RegexAnswer } from "./regexMatch.ts";
import { RegexError, searchRegex } from "./regexSearch.ts";

/** Milliseconds without typing before a search begins; a live turn is looked through again as often. */
const PAUSE = 150;

export function useFind(model: TurnModel): void {
  const [query, trace] = [model.query.value, model.trace.value];
  const state = useMemo(() => ({ latest: 0, ran: 0 }), []);
  useEffect(() => {
    const number = ++state.latest;
    if (isEmpty(query)) {
      model.hits.value = null;
      model.findError.value = "";
      return;
    }
    // A live turn changes faster than this: what is waited for is not begun anew.
    const wait = Math.max(0, PAUSE - (performance.now() - state.ran));
    const timer = setTimeout(() => {
      state.ran = performance.now();
      void run(model, query, () => number === state.latest);
    }, wait);
    return () => clearTimeout(timer);
  }, [query, trace]);
}

async function run(model: TurnModel, query: FindQuery, isLatest: () => boolean): Promise<void> {
  const [trace, lanes, order] = [model.trace.value, model.lanes.value, model.order.value];
  try {
    const matcher = query.regex ? await regexMatcher(trace, lanes, query) : plainMatcher(query.text, query.matchCase);
    if (!isLatest()) return;
    model.hits.value = findHits({ trace, lanes, order, query }, matcher);
    model.findError.value = "";
  } catch (error) {
    if (!(error instanceof RegexError)) throw error;
    if (!isLatest() || !error.message) return;
    model.hits.value = { items: { frames: new Map(), events: new Map(), outputs: new Map() }, slots: [] };
    model.findError.value = error.message;
  }
}

/** The answers of the worker, found again by the texts that were asked about. */
async function regexMatcher(trace: Trace, lanes: readonly Lane[], query: FindQuery): Promise<Matcher> {
  if (!query.text) return plainMatcher("", false);
  const wire = [...trace.frames, ...trace.outputs].map(({ name, data }) => searchedText(name, data));
  const texts = [...new Set([...trace.events.map(eventText), ...wire])];
  const parts = partTexts(trace.events, lanes).map((part) => part.text);
  const answer: RegexAnswer = await searchRegex(query.text, query.matchCase, texts, parts);
  const [found, places] = [zip(texts, answer.found), zip(parts, answer.places)];
  return { one: (text) => found.get(text) ?? null, all: (text) => places.get(text) ?? [] };
}

function zip<V>(keys: string[], values: V[]): Map<string, V> {
  return new Map(keys.map((key, index) => [key, values[index] as V]));
}
