// One turn on the page: the trace, the place the reader stands at, and all that follows from the two.
import { computed, type Signal, signal } from "@preact/signals";
import type { Mark, Trace } from "../api/types.ts";
import type { Axis } from "./clock.ts";
import { DerivedBuilder } from "./derived.ts";
import { type FindQuery, type Hits, NO_QUERY } from "./find.ts";
import { gapsOf } from "./gaps.ts";
import { type Lit, lastUpTo } from "./linking.ts";
import { COLUMNS, type Column, type Place } from "./order.ts";
import { reachAt, stepped } from "./stepping.ts";

export type MarksAt = Record<Column, Map<number, Mark[]>>;
const NOTHING_LIT: Lit = { frames: [], events: [], outputs: [] };

export class TurnModel {
  readonly trace: Signal<Trace>;
  /** Null is the end: all is shown, and what comes is followed. */
  readonly place = signal<Place | null>(null);
  /** How often the reader went to the end: the place is none there, as at first. */
  readonly endings = signal(0);
  /** The column that is stepped through. */
  readonly column = signal<Column>("events");
  /** The axis that was chosen; null: whichever shows more. */
  readonly axis = signal<Axis | null>(null);
  readonly playing = signal(false);
  readonly speed = signal(1);
  /** Seconds into the turn while it is played: between two frames too. */
  readonly playedTo = signal<number | null>(null);
  /** Whether the reader jumped to the place, and did not step there. */
  jumped = false;
  /** What is sought, what was found, and whether only that is shown. */
  readonly query = signal<FindQuery>(NO_QUERY);
  readonly hits = signal<Hits | null>(null);
  readonly findError = signal("");
  readonly onlyHits = signal(true);

  readonly #builder = new DerivedBuilder();
  readonly #derived = computed(() => this.#builder.extend(this.trace.value));
  readonly order = computed(() => this.#derived.value.order);
  readonly links = computed(() => this.#derived.value.links);
  readonly clock = computed(() => this.#derived.value.clock);
  readonly lanes = computed(() => this.#derived.value.lanes);
  readonly reach = computed(() => reachAt(this.trace.value, this.order.value, this.place.value));
  readonly lit = computed(() => (this.place.value ? this.links.value.of(this.place.value) : NOTHING_LIT));
  readonly #litSets = computed(() => {
    const { frames, events, outputs } = this.lit.value;
    return { frames: new Set(frames), events: new Set(events), outputs: new Set(outputs) };
  });
  readonly gaps = computed(() => gapsOf(this.clock.value.timed ? this.clock.value.times : []));
  readonly gapAt = computed(() => new Map(this.gaps.value.map(({ frame, wait }) => [frame, wait])));
  /** The rows of the ledger that are shown; null: all. */
  readonly shownSlots = computed(() => (this.onlyHits.value ? (this.hits.value?.slots ?? null) : null));
  /** The number of the match that the reader stands at, from 1; 0 at none. */
  readonly hitNumber = computed(() => {
    const [hits, place] = [this.hits.value, this.place.value];
    if (!hits || !place) return 0;
    const slot = this.#slotOf(place);
    const at = lastUpTo(hits.slots, slot);
    return at >= 0 && hits.slots[at] === slot ? at + 1 : 0;
  });
  readonly marks = computed(() => marksAt(this.trace.value.marks));
  /** The axis that is drawn: without times there is only the order. */
  readonly drawnAxis = computed<Axis>(() => {
    const clock = this.clock.value;
    if (!clock.timed) return "order";
    return this.axis.value ?? (clock.bunched ? "order" : "time");
  });

  constructor(trace: Trace) {
    this.trace = signal(trace);
  }

  isLit({ column, index }: Place): boolean {
    return this.#litSets.value[column].has(index);
  }

  go(place: Place | null): void {
    if (place) this.column.value = place.column;
    this.place.value = place;
  }

  #slotOf({ column, index }: Place): number {
    return this.order.value.slots[column][index] ?? 0;
  }

  choose(place: Place): void {
    this.playing.value = false;
    this.jumped = true;
    this.go(place);
  }

  step(by: number): void {
    this.playing.value = false;
    this.jumped = false;
    const shown = this.shownSlots.value;
    if (shown) this.#stepShown(shown, by);
    else this.go(stepped(this.order.value, this.column.value, this.place.value, by));
  }

  /** One row on or back among those that are shown. */
  #stepShown(slots: number[], by: number): void {
    if (!slots.length) return;
    const here = this.place.value ? this.#slotOf(this.place.value) : -1;
    const at = lastUpTo(slots, here);
    const from = by < 0 && slots[at] !== here ? at + 1 : at;
    this.#goToSlot(slots[Math.max(0, Math.min(from + by, slots.length - 1))] ?? 0);
  }

  /** To what matches in a row: in the column that is stepped through, if something does there. */
  #goToSlot(slot: number): void {
    const at = this.order.value.at;
    const columns: Column[] = [this.column.value, "events", "frames", "outputs"];
    const has = (column: Column) => this.hits.value?.items[column].has(at[column][slot] ?? -1) ?? false;
    const column = columns.find(has) ?? columns.find((name) => (at[name][slot] ?? -1) >= 0) ?? "events";
    const kept = this.column.value;
    this.go({ column, index: at[column][slot] ?? 0 });
    this.column.value = kept;
  }

  /** To the next match or the one before; from the last to the first. */
  toHit(by: number): void {
    const slots = this.hits.value?.slots ?? [];
    if (!slots.length) return;
    const here = this.place.value ? this.#slotOf(this.place.value) : -1;
    const at = lastUpTo(slots, here);
    const next = by > 0 ? at + 1 : slots[at] === here ? at - 1 : at;
    this.playing.value = false;
    this.jumped = true;
    this.#goToSlot(slots[(next + slots.length) % slots.length] ?? 0);
  }

  /** To the end of the next gap. */
  toGap(): void {
    const gaps = this.gaps.value;
    const here = this.place.value ? this.reach.value.frames - 1 : -1;
    const next = gaps.find(({ frame }) => frame > here) ?? gaps[0];
    if (next) this.choose({ column: "frames", index: next.frame });
  }

  /** To the neighbouring column, to what is linked with this. */
  cross(by: number): void {
    const column = COLUMNS[COLUMNS.indexOf(this.column.value) + by];
    if (!column) return;
    const from = this.place.value;
    if (from) this.choose(this.links.value.across(from, column) ?? from);
    else this.column.value = column;
  }

  /** The unit of stepping; the place goes along. */
  stepIn(column: Column): void {
    const from = this.place.value;
    this.column.value = column;
    if (from && from.column !== column) this.go(this.links.value.across(from, column));
  }

  toStart(): void {
    if (this.order.value.counts[this.column.value]) this.choose({ column: this.column.value, index: 0 });
  }

  toEnd(): void {
    this.playing.value = false;
    this.jumped = false;
    this.place.value = null;
    this.endings.value += 1;
  }

  /** To the next thing that has a mark. */
  toMark(by: number): void {
    const places = this.trace.value.marks.map(placeOf).filter((place) => place !== null);
    if (!places.length) return;
    const { slots } = this.order.value;
    const slotOf = (place: Place) => slots[place.column][place.index] ?? 0;
    const here = this.place.value ? slotOf(this.place.value) : by > 0 ? -1 : Number.POSITIVE_INFINITY;
    const sorted = places.sort((a, b) => (slotOf(a) - slotOf(b)) * by);
    this.choose(sorted.find((place) => (slotOf(place) - here) * by > 0) ?? (sorted[0] as Place));
  }
}

/** What a mark is about: the nearest to the client of what it names. */
export function placeOf(mark: Mark): Place | null {
  if (mark.output !== null) return { column: "outputs", index: mark.output };
  if (mark.event !== null) return { column: "events", index: mark.event };
  return mark.frame === null ? null : { column: "frames", index: mark.frame };
}

function marksAt(marks: Mark[]): MarksAt {
  const found: MarksAt = { frames: new Map(), events: new Map(), outputs: new Map() };
  for (const mark of marks) {
    const place = placeOf(mark);
    if (!place) continue;
    const list = found[place.column].get(place.index);
    if (list) list.push(mark);
    else found[place.column].set(place.index, [mark]);
  }
  return found;
}
