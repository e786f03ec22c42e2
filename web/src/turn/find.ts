// Finding in a turn: by text, by the type of an event, by part. Pure; regular expressions run in a worker
// (regexSearch.ts), and only their results come here.
import type { Event, Trace } from "../api/types.ts";
import type { Lane } from "./lanes.ts";
import { lastUpTo } from "./linking.ts";
import { COLUMNS, type Column, type Order } from "./order.ts";

export interface FindQuery {
  text: string;
  regex: boolean;
  matchCase: boolean;
  /** The type of an event; empty: any. */
  type: string;
  /** The number of a lane; null: any. */
  lane: number | null;
}

export const NO_QUERY: FindQuery = { text: "", regex: false, matchCase: false, type: "", lane: null };

export function isEmpty(query: FindQuery): boolean {
  return query.text === "" && query.type === "" && query.lane === null;
}

/** What matches: for each item the text that was found in it, and the rows of the ledger that hold such items. */
export interface Hits {
  items: Record<Column, Map<number, string>>;
  slots: number[];
}

export interface Span {
  start: number;
  end: number;
}

/** What texts hold: `one` gives what was found in a text, or null; `all` gives every place in a longer text. */
export interface Matcher {
  one: (text: string) => string | null;
  all: (text: string) => Span[];
}

/** More places in one part than this are not counted. */
export const MOST_PLACES = 10_000;

export function plainMatcher(wanted: string, matchCase: boolean): Matcher {
  const needle = matchCase ? wanted : wanted.toLowerCase();
  const fold = (text: string) => (matchCase ? text : text.toLowerCase());
  return {
    one: (text) => {
      const at = fold(text).indexOf(needle);
      return at < 0 ? null : text.slice(at, at + needle.length);
    },
    all: (text) => {
      const [folded, found] = [fold(text), [] as Span[]];
      for (let at = folded.indexOf(needle); at >= 0 && found.length < MOST_PLACES; ) {
        found.push({ start: at, end: at + needle.length });
        at = folded.indexOf(needle, at + needle.length);
      }
      return found;
    },
  };
}

const ESCAPES: Record<string, string> = { n: "\n", r: "\r", t: "\t" };

/** What is looked through: the name, the bytes, and the bytes without JSON's escapes, if there are any. */
export function searchedText(name: string, data: string): string {
  if (!data.includes("\\")) return `${name}\n${data}`;
  const plain = data.replace(/\\(u[0-9a-fA-F]{4}|.)/g, (_, code: string) =>
    code.length === 5 ? String.fromCharCode(Number.parseInt(code.slice(1), 16)) : (ESCAPES[code] ?? code),
  );
  return `${name}\n${data}\n${plain}`;
}

export function eventText({ type, body }: Event): string {
  return searchedText(type, JSON.stringify(body));
}

/** What an event adds to the text of its part. */
export function deltaOf({ type, body }: Event): string {
  if (!type.endsWith("-delta")) return "";
  const added = body.text ?? body.json;
  return typeof added === "string" ? added : "";
}

/** The text of a part, and where in it each of its events begins. */
export interface PartText {
  text: string;
  events: number[];
  starts: number[];
}

export function partTexts(events: readonly Event[], lanes: readonly Lane[]): PartText[] {
  return lanes
    .filter((lane) => lane.whole)
    .map((lane) => {
      const [pieces, found]: [string[], PartText] = [[], { text: "", events: [], starts: [] }];
      let length = 0;
      for (const index of lane.events) {
        const piece = events[index] ? deltaOf(events[index]) : "";
        if (!piece) continue;
        found.events.push(index);
        found.starts.push(length);
        pieces.push(piece);
        length += piece.length;
      }
      return { ...found, text: pieces.join("") };
    });
}

/** Which events the type and the part allow. */
function allowedEvents(trace: Trace, lanes: readonly Lane[], query: FindQuery): (event: number) => boolean {
  const lane = query.lane === null ? null : new Set(lanes[query.lane]?.events ?? []);
  return (event) => (!lane || lane.has(event)) && (!query.type || trace.events[event]?.type === query.type);
}

interface Sought {
  trace: Trace;
  lanes: readonly Lane[];
  order: Order;
  query: FindQuery;
}

export function findHits(sought: Sought, matcher: Matcher): Hits {
  const { trace, lanes, order, query } = sought;
  const allowed = allowedEvents(trace, lanes, query);
  const events = trace.events.map((_, index) => index).filter(allowed);
  const items: Hits["items"] = { frames: new Map(), events: new Map(), outputs: new Map() };
  for (const index of events) {
    const event = trace.events[index];
    if (event) add(items.events, index, query.text ? matcher.one(eventText(event)) : "");
  }
  if (query.text) {
    addWire(items, sought, events, matcher);
    for (const part of partTexts(trace.events, lanes)) addSpans(items.events, part, matcher.all(part.text), allowed);
  }
  return { items, slots: slotsOf(items, order) };
}

/** Frames and outputs; with a type or a part, only those of the events that it allows. */
function addWire(items: Hits["items"], { trace, query }: Sought, events: number[], { one }: Matcher): void {
  const every = query.type === "" && query.lane === null;
  const [allowed, frames] = [new Set(events), new Set(events.map((event) => trace.events[event]?.frame))];
  for (const [index, { name, data }] of trace.frames.entries()) {
    if (every || frames.has(index)) add(items.frames, index, one(searchedText(name, data)));
  }
  for (const [index, { name, data, event }] of trace.outputs.entries()) {
    if (every || allowed.has(event ?? -1)) add(items.outputs, index, one(searchedText(name, data)));
  }
}

function add(into: Map<number, string>, index: number, found: string | null): void {
  if (found !== null) into.set(index, found);
}

/** Words that came in several pieces: each event that holds some of them matches. */
function addSpans(into: Map<number, string>, part: PartText, spans: Span[], allowed: (event: number) => boolean): void {
  for (const span of spans) {
    let piece = Math.max(0, lastUpTo(part.starts, span.start));
    for (; piece < part.events.length && (part.starts[piece] ?? 0) < span.end; piece++) {
      const event = part.events[piece] ?? 0;
      if (allowed(event) && !into.has(event)) into.set(event, pieceOf(part, piece, span));
    }
  }
}

/** What of a span one event has. */
function pieceOf({ text, starts }: PartText, piece: number, { start, end }: Span): string {
  return text.slice(Math.max(start, starts[piece] ?? 0), Math.min(end, starts[piece + 1] ?? text.length));
}

function slotsOf(items: Hits["items"], order: Order): number[] {
  const found = new Set<number>();
  for (const column of COLUMNS) {
    for (const index of items[column].keys()) found.add(order.slots[column][index] ?? 0);
  }
  return [...found].sort((a, b) => a - b);
}

/** The types of events that occur, in the order of their first. */
export function eventTypes(events: readonly Event[]): string[] {
  return [...new Set(events.map((event) => event.type))];
}
