// The turns as the gateway pushes them, for as long as the page is open: an open connection is what makes the gateway
// hold frames to look at, so it stays while another view is shown.
import { computed, effect, signal } from "@preact/signals";
import { about, aboutError, refreshAbout } from "../api/about.ts";
import { askJson, keepListening, type Link } from "../api/client.ts";
import { key, keyWanted } from "../api/key.ts";
import type { Row, Turns } from "../api/types.ts";
import { merged } from "./merging.ts";

export const link = signal<Link>("connecting");
export const linkError = signal("");
export const paused = signal(false);
/** How many turns went by too fast to be listed; they are in the journal. */
export const missed = signal(0);
/** Whether the first list has come. */
export const begun = signal(false);

const latest = signal<Row[]>([]);
const frozen = signal<Row[]>([]);
export const rows = computed(() => (paused.value ? frozen.value : latest.value));
/** How many turns have come since the list was stopped. */
export const waiting = computed(() => {
  if (!paused.value) return 0;
  const known = new Set(frozen.value.map((row) => row.id));
  return latest.value.filter((row) => !known.has(row.id)).length;
});

export function pause(): void {
  frozen.value = latest.value;
  paused.value = !paused.value;
}

export function rowOf(id: string): Row | undefined {
  return latest.value.find((row) => row.id === id);
}

/** Whether there is a gateway to listen to; one that has not answered yet may be there soon. */
const listens = computed(() => about.value?.live ?? aboutError.value !== "");

/** Listens for good; again with every other key. */
export function startLive(): void {
  effect(() => {
    void key.value;
    if (keyWanted.value || !listens.value) return;
    const stop = new AbortController();
    void keepListening("/inspector/live", stop.signal, take, tell);
    return () => stop.abort();
  });
}

function take(message: { event: string; data: string }): void {
  if (message.event !== "turns") return;
  const turns = JSON.parse(message.data) as Turns;
  if (turns.first) wholeHistory = turns.rows.length < FIRST_ROWS;
  latest.value = merged(latest.value, turns.rows);
  missed.value += turns.missed ?? 0;
  begun.value = true;
}

function tell(now: Link, why: string): void {
  if (now === "open" && link.value !== "open" && aboutError.value) void refreshAbout();
  link.value = now;
  linkError.value = why;
}

/** Where the history of a search goes on; null: there is no more. */
const further = new Map<string, number | null>();

/** As many turns as the gateway tells of at first; fewer are all there are. */
const FIRST_ROWS = 200;
let wholeHistory = false;

export function hasOlder(query: string): boolean {
  return !wholeHistory && further.get(query) !== null;
}

/** Asks for older turns until some are new here; the first page is mostly what is here already. */
export async function older(query: string): Promise<void> {
  const known = latest.value.length;
  while (hasOlder(query) && latest.value.length === known) {
    const before = further.get(query);
    const search = new URLSearchParams({ limit: "200", q: query, ...(before && { before: String(before) }) });
    const page = await askJson<{ rows: Row[]; before: number | null }>(`/inspector/turns?${search}`);
    further.set(query, page.before);
    latest.value = merged(latest.value, page.rows);
    if (paused.value) frozen.value = merged(frozen.value, page.rows);
  }
}
