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

/** Causes never go backwards, whatever the trace says: the arithmetic of slots rests on it. */
function groupsOf(causes: (number | null)[], frames: number): number[] {
  let last = 0;
  return causes.map((cause) => {
    last = Math.max(last, Math.min(cause ?? frames, frames));
    return last;
  });
}

type Items = Pick<Additions, "frames" | "events" | "outputs">;

export function orderOf(trace: Items): Order {
  const frames = trace.frames.length;
  const events = groupsOf(
    trace.events.map((event) => event.frame),
    frames,
  );
  const outputs = groupsOf(
    trace.outputs.map((output) => output.frame),
    frames,
  );
  const counts = { frames, events: events.length, outputs: outputs.length };
  const laid = layOut(trace, frames, events, outputs);
  return { counts, groups: { events, outputs }, ...laid };
}

/** Gives every item its slot, group by group: an event stands beside the first output that came of it. */
class Layout {
  readonly slots: Record<Column, number[]> = { frames: [], events: [], outputs: [] };
  readonly groupAt: number[] = [];
  readonly #causes: (number | null)[];
  readonly #groups: number[];
  #nextEvent = 0;
  #nextOutput = 0;
  #output = 0;

  constructor(trace: Items, groups: number[]) {
    this.#causes = trace.outputs.map((output) => output.event);
    this.#groups = groups;
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

  /** Whether the next output is one of this group that came of this event or one before it. */
  #waits(group: number, event: number): boolean {
    return this.#groups[this.#output] === group && (this.#causes[this.#output] ?? -1) <= event;
  }

  #outputsUpTo(group: number, event: number): void {
    for (; this.#waits(group, event); this.#output++) this.slots.outputs.push(this.#nextOutput++);
  }
}

function layOut(trace: Items, frames: number, events: number[], outputs: number[]) {
  const layout = new Layout(trace, outputs);
  const counts = new Array<number>(frames + 1).fill(0);
  for (const group of events) counts[group] = (counts[group] ?? 0) + 1;
  for (const [group, count] of counts.entries()) layout.group(group, count, group < frames);
  const { slots, groupAt } = layout;
  const size = groupAt.length;
  const at = {
    frames: inverse(slots.frames, size),
    events: inverse(slots.events, size),
    outputs: inverse(slots.outputs, size),
  };
  return { slots, at, groupAt, size };
}

function inverse(slots: number[], size: number): number[] {
  const at = new Array<number>(size).fill(-1);
  for (const [index, slot] of slots.entries()) at[slot] = index;
  return at;
}
