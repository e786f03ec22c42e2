// One turn on the page: the trace, the place the reader stands at, and all that follows from the two.
import { computed, type Signal, signal } from "@preact/signals";
import type { Mark, Trace } from "../api/types.ts";
import { type Axis, Clock } from "./clock.ts";
import { lanesOf } from "./lanes.ts";
import { Links, type Lit } from "./linking.ts";
import { COLUMNS, type Column, orderOf, type Place } from "./order.ts";
import { reachAt, stepped } from "./stepping.ts";

export type MarksAt = Record<Column, Map<number, Mark[]>>;
const NOTHING_LIT: Lit = { frames: [], events: [], outputs: [] };

export class TurnModel {
  readonly trace: Signal<Trace>;
  /** Null is the end: all is shown, and what comes is followed. */
  readonly place = signal<Place | null>(null);
  /** The column that is stepped through. */
  readonly column = signal<Column>("events");
  /** The axis that was chosen; null: whichever shows more. */
  readonly axis = signal<Axis | null>(null);
  readonly playing = signal(false);
  readonly speed = signal(1);
  /** Seconds into the turn while it is played: between two frames too. */
  readonly playedTo = signal<number | null>(null);

  readonly order = computed(() => orderOf(this.trace.value));
  readonly links = computed(() => new Links(this.trace.value, this.order.value));
  readonly clock = computed(() => new Clock(this.trace.value.frames, this.order.value, this.trace.value.timed));
  readonly lanes = computed(() => lanesOf(this.trace.value.events));
  readonly reach = computed(() => reachAt(this.trace.value, this.order.value, this.place.value));
  readonly lit = computed(() => (this.place.value ? this.links.value.of(this.place.value) : NOTHING_LIT));
  readonly #litSets = computed(() => {
    const { frames, events, outputs } = this.lit.value;
    return { frames: new Set(frames), events: new Set(events), outputs: new Set(outputs) };
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

  choose(place: Place): void {
    this.playing.value = false;
    this.go(place);
  }

  step(by: number): void {
    this.playing.value = false;
    this.go(stepped(this.order.value, this.column.value, this.place.value, by));
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
    this.place.value = null;
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
