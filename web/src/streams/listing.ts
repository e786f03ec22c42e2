// The list of turns as the page knows it: newer turns from the live feed above pages of the history. Pure.
import type { Row, TurnPage } from "../api/types.ts";
import { formatMany } from "../ui/format.ts";
import type { QueryProblem } from "./completion.ts";

export const PAGE_ROWS = 100;
/** Pages that are kept; those farthest from what is shown are dropped, and asked for again when they are shown. */
export const MAX_PAGES = 60;
/** Finished turns above the history. With more, the list is read again, so that they become part of the history. */
export const MAX_LIVE_ROWS = 500;

export const STATE_SETS = ["all", "running", "finished", "warnings", "broken"] as const;
export type StateSet = (typeof STATE_SETS)[number];
/** The states of each set in the query language; "" is all. */
export const SET_STATES: Record<StateSet, string> = {
  all: "",
  running: "running",
  finished: "finish",
  warnings: "warning,cancelled",
  broken: "fault,refused",
};

/** The state of a turn in the words of the query language. */
export function stateOf(row: Row): string {
  return row.state === "finish" && row.warning ? "warning" : row.state;
}

export function setOf(row: Row): StateSet {
  if (isRunning(row)) return "running";
  const state = stateOf(row);
  return STATE_SETS.find((name) => SET_STATES[name].split(",").includes(state)) ?? "finished";
}

export function isRunning(row: Row): boolean {
  return row.state === "open" || row.state === "streaming";
}

export interface Listing {
  /** The history up to here is in pages; later turns are in `live`. */
  upto: number;
  /** Turns of the history in the chosen set of states. */
  total: number;
  /** Requests that all found turns of the history stand for. */
  requests: number;
  /** Turns of the history by state, of all sets. */
  states: Record<string, number>;
  pages: ReadonlyMap<number, Row[]>;
  /** Running turns and those that ended since the history was read, newest first. */
  live: Row[];
  /** What may surprise in the search. */
  hints: QueryProblem[];
  /** Turns whose texts could be searched only in part. */
  partial: number;
}

export const EMPTY: Listing = {
  upto: 0,
  total: 0,
  requests: 0,
  states: {},
  pages: new Map(),
  live: [],
  hints: [],
  partial: 0,
};

export function listingOf(page: TurnPage): Listing {
  const { upto, total = 0, requests = 0, states = {}, hints = [], partial = 0 } = page;
  return { ...EMPTY, upto, total, requests, states, pages: new Map([[0, page.rows]]), hints, partial };
}

/** Of a search that looked for words in turns that are kept only in part. */
export function partialNote(partial: number): string {
  return `${formatMany(partial, "turn was", "turns were")} searched only in part: the rest of the prompt or answer is not kept.`;
}

/** Adds a page of the history, and drops those farthest from it if there are too many. */
export function withPage(listing: Listing, number: number, rows: Row[]): Listing {
  const pages = new Map(listing.pages).set(number, rows);
  while (pages.size > MAX_PAGES) {
    const farthest = [...pages.keys()].reduce((a, b) => (Math.abs(a - number) >= Math.abs(b - number) ? a : b));
    pages.delete(farthest);
  }
  return { ...listing, pages };
}

/** Adds news of the live feed. `updates` only change turns that are known. */
export function withNews(listing: Listing, rows: Row[], updates: Row[] = [], gone: string[] = []): Listing {
  const left = new Set(gone);
  const live = merged(
    listing.live.filter(({ id }) => !left.has(id)),
    rows,
  );
  const changes = new Map(updates.map((row) => [row.id, row]));
  if (!changes.size) return { ...listing, live };
  const change = (row: Row) => changes.get(row.id) ?? row;
  const pages = new Map([...listing.pages].map(([number, page]) => [number, page.map(change)]));
  return { ...listing, live: live.map(change), pages };
}

/** Changes rows wherever they are. */
export function withChanges(listing: Listing, change: (row: Row) => Row): Listing {
  const pages = new Map([...listing.pages].map(([number, page]) => [number, page.map(change)]));
  return { ...listing, live: listing.live.map(change), pages };
}

/** Newest first. The old list is not changed. */
export function merged(rows: Row[], news: Row[]): Row[] {
  if (!news.length) return rows;
  const byId = new Map(news.map((row) => [row.id, row]));
  const kept = rows.map((row) => {
    const newer = byId.get(row.id);
    byId.delete(row.id);
    return newer ?? row;
  });
  if (byId.size) {
    kept.push(...byId.values());
    kept.sort((a, b) => b.time - a.time || (a.id < b.id ? 1 : -1));
  }
  return kept;
}

/** Keeps the running turns above the history, and the newest of those that have ended. */
export function trimLive(listing: Listing, most = MAX_LIVE_ROWS): Listing {
  let ended = 0;
  return { ...listing, live: listing.live.filter((row) => isRunning(row) || ++ended <= most) };
}

/** How many turns each set of states has. */
export function countSets({ states, live }: Listing): Record<StateSet, number> {
  const counts = { all: 0, running: 0, finished: 0, warnings: 0, broken: 0 };
  for (const name of STATE_SETS) {
    const members = SET_STATES[name].split(",");
    counts[name] = members.reduce((sum, state) => sum + (states[state] ?? 0), 0);
  }
  counts.all = Object.values(states).reduce((sum, count) => sum + count, 0) + live.length;
  for (const row of live) counts[setOf(row)] += 1;
  return counts;
}

/** The turns above the history that are shown. While the list is sorted by something else than time: no other than running. */
export function liveRows({ live }: Listing, set: string, byTime: boolean): Row[] {
  if (!byTime && set !== "running") return [];
  return set === "all" ? live : live.filter((row) => setOf(row) === set);
}

/** The row at a place of the history; undefined while its page is not here. */
export function rowAt({ pages }: Listing, place: number): Row | undefined {
  return pages.get(Math.floor(place / PAGE_ROWS))?.[place % PAGE_ROWS];
}

/** The pages that some places of the history need and that are not here. */
export function missingPages({ pages, total }: Listing, first: number, end: number): number[] {
  const last = Math.min(end, total) - 1;
  const numbers: number[] = [];
  for (let number = Math.floor(Math.max(first, 0) / PAGE_ROWS); number * PAGE_ROWS <= last; number++) {
    if (!pages.has(number)) numbers.push(number);
  }
  return numbers;
}
