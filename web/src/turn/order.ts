// Which item of a turn belongs where: every frame, event and output in the order of the frames that caused them, and
// the ledger's slots, so that a cause and its effects stand side by side. Pure.
import type { Additions } from "../api/types.ts";

export const COLUMNS = ["frames", "events", "outputs"] as const;
export type Column = (typeof COLUMNS)[number];

export interface Place {
  column: Column;
  index: number;
}

export function samePlace(a: Place | null, b: Place | null): boolean {
  return a?.column === b?.column && a?.index === b?.index;
}

export interface Order {
  counts: Record<Column, number>;
  /** The group of each event and output: the frame that caused it; the number of frames stands for the end of input. */
  groups: { events: number[]; outputs: number[] };
  /** The slot of each item. */
  slots: Record<Column, number[]>;
  /** What stands in a slot, -1 for nothing. */
  at: Record<Column, number[]>;
  /** Which group a slot belongs to. */
  groupAt: number[];
  size: number;
}

/** Gives every item its slot, group by group: an event stands beside the first output that it caused. */
class Layout {
  readonly slots: Record<Column, number[]> = { frames: [], events: [], outputs: [] };
  readonly groupAt: number[] = [];
  #outputs: readonly { event: number | null }[] = [];
  #groups: readonly number[] = [];
  #nextEvent = 0;
  #nextOutput = 0;
  #output = 0;

  take(outputs: readonly { event: number | null }[], groups: readonly number[]): void {
    this.#outputs = outputs;
    this.#groups = groups;
  }

  counts(): Record<Column, number> {
    const { frames, events, outputs } = this.slots;
    return { frames: frames.length, events: events.length, outputs: outputs.length };
  }

  /** Keeps so many of each. */
  forget(kept: Record<Column, number>, size: number): void {
    for (const column of COLUMNS) this.slots[column].length = kept[column];
    this.groupAt.length = size;
    this.#output = kept.outputs;
  }

  group(group: number, events: number, hasFrame: boolean): void {
    const start = this.groupAt.length;
    this.#nextEvent = this.#nextOutput = start;
    if (hasFrame) this.slots.frames.push(start);
    for (let count = 0; count < events; count++) this.#event(group);
    this.#outputsUpTo(group, Number.POSITIVE_INFINITY);
    const end = Math.max(this.#nextEvent, this.#nextOutput, hasFrame ? start + 1 : start);
    while (this.groupAt.length < end) this.groupAt.push(group);
  }

  #event(group: number): void {
    const event = this.slots.events.length;
    this.#outputsUpTo(group, event - 1);
    if (this.#waits(group, event)) this.#nextEvent = this.#nextOutput = Math.max(this.#nextEvent, this.#nextOutput);
    this.slots.events.push(this.#nextEvent++);
    this.#outputsUpTo(group, event);
  }

  /** Whether the next output is one of this group that this event or one before it caused. */
  #waits(group: number, event: number): boolean {
    return this.#groups[this.#output] === group && (this.#outputs[this.#output]?.event ?? -1) <= event;
  }

  #outputsUpTo(group: number, event: number): void {
    for (; this.#waits(group, event); this.#output++) this.slots.outputs.push(this.#nextOutput++);
  }
}

/** Causes never go backwards, whatever the trace says: the arithmetic of slots rests on it. */
function appendGroups(groups: number[], items: readonly { frame: number | null }[], frames: number): void {
  let last = groups.at(-1) ?? 0;
  for (let index = groups.length; index < items.length; index++) {
    last = Math.max(last, Math.min(items[index]?.frame ?? frames, frames));
    groups.push(last);
  }
}

type Items = Pick<Additions, "frames" | "events" | "outputs">;

export function orderOf(trace: Items): Order {
  return new OrderBuilder().extend(trace);
}

/** How far the order is final: what comes later does not change it. */
interface Settled extends Record<Column, number> {
  size: number;
}

/** Lays a trace out, and goes on where it was when the trace has grown. Only what belongs to the last frame, and to the
 * end of the input, is laid out again. */
export class OrderBuilder {
  readonly #groups: Order["groups"] = { events: [], outputs: [] };
  readonly #layout = new Layout();
  readonly #at: Order["at"] = { frames: [], events: [], outputs: [] };
  #settled: Settled = { frames: 0, events: 0, outputs: 0, size: 0 };

  extend(trace: Items): Order {
    const before = this.#settled;
    this.#forgetUnsettled();
    const frames = trace.frames.length;
    appendGroups(this.#groups.events, trace.events, frames);
    appendGroups(this.#groups.outputs, trace.outputs, frames);
    this.#layout.take(trace.outputs, this.#groups.outputs);
    this.#layGroups(frames);
    const { slots, groupAt } = this.#layout;
    const size = groupAt.length;
    for (const column of COLUMNS) this.#fillAt(column, before[column], size);
    const counts = { frames, events: trace.events.length, outputs: trace.outputs.length };
    return { counts, groups: this.#groups, slots, at: this.#at, groupAt, size };
  }

  #forgetUnsettled(): void {
    const { frames, events, outputs, size } = this.#settled;
    this.#groups.events.length = events;
    this.#groups.outputs.length = outputs;
    this.#layout.forget({ frames, events, outputs }, size);
    for (const column of COLUMNS) this.#at[column].length = size;
  }

  #layGroups(frames: number): void {
    const events = this.#groups.events;
    let next = this.#settled.events;
    for (let group = this.#settled.frames; group <= frames; group++) {
      if (group === frames - 1) this.#settled = { ...this.#layout.counts(), size: this.#layout.groupAt.length };
      const first = next;
      while (next < events.length && (events[next] ?? 0) <= group) next++;
      this.#layout.group(group, next - first, group < frames);
    }
  }

  #fillAt(column: Column, from: number, size: number): void {
    const [at, slots] = [this.#at[column], this.#layout.slots[column]];
    while (at.length < size) at.push(-1);
    for (let index = from; index < slots.length; index++) at[slots[index] ?? 0] = index;
  }
}
