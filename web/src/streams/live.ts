// The turns that match the search: the history in pages, and the live feed above it. The connection stays open while
// another view is shown: with team keys it is what makes the gateway hold frames to look at.
import { computed, effect, signal } from "@preact/signals";
import { about, aboutError, refreshAbout } from "../api/about.ts";
import {
  askJson,
  explain,
  FIRST_WAIT,
  type Link,
  LONGEST_WAIT,
  listen,
  Refusal,
  pause as wait,
} from "../api/client.ts";
import { key, keyWanted, session, sessionWanted } from "../api/key.ts";
import type { Message } from "../api/sse.ts";
import type { Progress, Row, TurnPage, Turns } from "../api/types.ts";
import {
  EMPTY,
  isRunning,
  type Listing,
  listingOf,
  MAX_LIVE_ROWS,
  missingPages,
  PAGE_ROWS,
  SET_STATES,
  type StateSet,
  trimLive,
  withChanges,
  withNews,
  withPage,
} from "./listing.ts";

export const link = signal<Link>("connecting");
export const linkError = signal("");
export const paused = signal(false);
/** Whether the first list has come. */
export const begun = signal(false);
/** Why the search cannot be read. */
export const queryError = signal<Refusal | null>(null);
/** Whether what stands in the search box cannot be read: the list is still that of the search before. */
export const unreadable = signal(false);
/** Seconds that this computer's clock is ahead of the gateway's. */
export const clockAhead = signal(0);

export interface Search {
  q: string;
  set: StateSet;
  sort: string;
  ascending: boolean;
}

export const NEWEST: Search = { q: "", set: "all", sort: "time", ascending: false };
/** The gateway's time when the newest list was last true; 0 before the feed has said anything. */
let latestTime = 0;
/** The same for the list that is shown while it is paused. */
let frozenTime = 0;

function gatewayTime(): number {
  return Date.now() / 1000 - clockAhead.value;
}

/** The gateway's time at which the rows are true: it stands while they cannot change. */
export function rowTime(): number {
  if (paused.value) return frozenTime;
  return link.value === "open" || !latestTime ? gatewayTime() : latestTime;
}

const search = signal<Search>(NEWEST);
/** The search that the list is an answer to. */
const answered = signal<Search>(NEWEST);
/** Whether the list still shows what was searched for before. */
export const searching = computed(() => answered.value !== search.value);
const latest = signal<Listing>(EMPTY);
const frozen = signal<Listing>(EMPTY);
const rereads = signal(0);
export const listing = computed(() => (paused.value ? frozen.value : latest.value));
/** How many turns have come since the list was paused. */
export const waiting = computed(() => {
  if (!paused.value) return 0;
  const known = new Set(frozen.value.live.map((row) => row.id));
  return latest.value.live.filter((row) => !known.has(row.id)).length;
});

/** Turns that came while the list was paused were too many to keep: there is a gap above the history. */
let hasGap = false;

export function pause(): void {
  frozen.value = latest.value;
  frozenTime = rowTime();
  paused.value = !paused.value;
  if (!paused.value && hasGap) reread();
}

/** The newest turns that are known, also while the list is paused. */
export const rows = computed(() => [...latest.value.live, ...(latest.value.pages.get(0) ?? [])]);

/** Shows the turns of another search. */
export function searchTurns(next: Search): void {
  const now = search.value;
  const same = now.q === next.q && now.set === next.set && now.sort === next.sort && now.ascending === next.ascending;
  if (!same) search.value = next;
}

/** Reads the list again. */
export function reread(): void {
  rereads.value += 1;
}

export function rowOf(id: string): Row | undefined {
  const { live, pages } = latest.value;
  return live.find((row) => row.id === id) ?? [...pages.values()].flat().find((row) => row.id === id);
}

/** Whether there is a gateway to listen to; one that has not answered yet may be there soon. */
const listens = computed(() => about.value?.live ?? aboutError.value !== "");

/** Listens for good; again with every other key and every other search. */
export function startLive(): void {
  effect(() => {
    void key.value;
    void session.value;
    void rereads.value;
    const wanted = search.value;
    if (keyWanted.value || sessionWanted.value || !listens.value) return;
    const stop = new AbortController();
    void follow(wanted, stop.signal);
    return () => stop.abort();
  });
}

/** Reads the history and follows the feed; again after a connection is lost, after a wait that grows. */
async function follow(wanted: Search, signal: AbortSignal): Promise<void> {
  let delay = FIRST_WAIT;
  while (!signal.aborted) {
    tell("connecting", "");
    try {
      const whole = await followOnce(wanted, signal, () => {
        delay = FIRST_WAIT;
      });
      if (whole && !signal.aborted) tell("lost", "The gateway ended the connection.");
    } catch (error) {
      if (signal.aborted || isQueryError(error)) return;
      tell("lost", explain(error));
    }
    await wait(link.value === "lost" ? delay : 0, signal);
    delay = Math.min(delay * 2, LONGEST_WAIT);
  }
}

/** Returns whether the feed ended; false: the list must be read again. */
async function followOnce(wanted: Search, signal: AbortSignal, onEvent: () => void): Promise<boolean> {
  const first = await askJson<TurnPage>(pageAddress(wanted, 0, 0), { signal });
  queryError.value = null;
  show(listingOf(first));
  answered.value = wanted;
  const feed = new URLSearchParams({ q: wanted.q, after: String(first.upto) });
  for await (const message of listen(`/inspector/live?${feed}`, signal)) {
    onEvent();
    tell("open", "");
    if (!take(message)) return false;
  }
  return true;
}

function isQueryError(error: unknown): boolean {
  if (!(error instanceof Refusal) || error.code !== "query") return false;
  queryError.value = error;
  answered.value = search.value;
  tell("open", "");
  return true;
}

function pageAddress({ q, set, sort, ascending }: Search, number: number, upto: number): string {
  const values = { q, state: SET_STATES[set], sort, order: ascending ? "asc" : "desc", limit: String(PAGE_ROWS) };
  const place = upto ? { offset: String(number * PAGE_ROWS), upto: String(upto) } : {};
  return `/inspector/turns?${new URLSearchParams({ ...values, ...place })}`;
}

function show(next: Listing): void {
  hasGap = false;
  latest.value = next;
  if (latestTime) latestTime = gatewayTime();
  if (paused.value) {
    frozen.value = next;
    frozenTime = gatewayTime();
  }
  asked.clear();
}

/** Takes an event. False: the list must be read again. */
function take(message: Message): boolean {
  if (message.event === "progress") takeProgress(JSON.parse(message.data) as Progress);
  if (message.event === "removed") takeRemovals(JSON.parse(message.data) as { ids: string[] });
  if (message.event !== "turns") return true;
  const turns = JSON.parse(message.data) as Turns;
  if (turns.now !== undefined) clockAhead.value = Date.now() / 1000 - turns.now;
  latestTime = gatewayTime();
  latest.value = withNews(latest.value, turns.rows, turns.updates, turns.gone);
  begun.value = true;
  return !turns.stale && !turns.missed && hasRoom();
}

/** Whether there is room for more turns above the history. A list that is paused drops the oldest of them instead. */
function hasRoom(): boolean {
  const ended = latest.value.live.filter((row) => !isRunning(row)).length;
  if (ended <= MAX_LIVE_ROWS) return true;
  if (!paused.value) return false;
  latest.value = trimLive(latest.value);
  hasGap = true;
  return true;
}

function takeProgress({ now, turns }: Progress): void {
  clockAhead.value = Date.now() / 1000 - now;
  latestTime = now;
  const live = latest.value.live.map((row) => {
    const found = isRunning(row) ? turns[row.id] : undefined;
    return found ? { ...row, bytes: found[0], last_byte: found[1] } : row;
  });
  latest.value = { ...latest.value, live };
}

/** Frames of these turns can no longer be looked at. */
function takeRemovals({ ids }: { ids: string[] }): void {
  const gone = new Set(ids);
  const change = (row: Row) => (gone.has(row.id) ? { ...row, held: false } : row);
  latest.value = withChanges(latest.value, change);
  if (paused.value) frozen.value = withChanges(frozen.value, change);
}

function tell(now: Link, why: string): void {
  if (now === "open" && link.value !== "open" && aboutError.value) void refreshAbout();
  link.value = now;
  linkError.value = why;
}

/** Pages that are asked for. */
const asked = new Set<string>();
/** Requests at once. While the list scrolls fast, pages of places that were only passed are not asked for. */
const MAX_LOADING = 2;
let loading = 0;
let shown = { first: 0, end: 0 };

/** Asks for the pages of some places of the history that are not here. Places of earlier calls are forgotten. */
export function loadRows(first: number, end: number): void {
  shown = { first, end };
  loadShown();
}

function loadShown(): void {
  const { upto } = latest.value;
  for (const number of missingPages(latest.value, shown.first, shown.end)) {
    const address = pageAddress(search.value, number, upto);
    if (loading >= MAX_LOADING) return;
    if (!asked.has(address)) void loadPage(address, number, upto);
  }
}

async function loadPage(address: string, number: number, upto: number): Promise<void> {
  const wanted = search.value;
  asked.add(address);
  loading += 1;
  try {
    const { rows } = await askJson<TurnPage>(address);
    if (latest.value.upto === upto && search.value === wanted) {
      latest.value = withPage(latest.value, number, rows);
      if (paused.value) frozen.value = withPage(frozen.value, number, rows);
    }
  } catch (error) {
    linkError.value = explain(error);
    await new Promise((resolve) => setTimeout(resolve, FIRST_WAIT));
  }
  asked.delete(address);
  loading -= 1;
  // Without a connection nothing is asked for again: the list is read anew once there is one.
  if (link.value === "open" && !keyWanted.value && !sessionWanted.value) loadShown();
}
