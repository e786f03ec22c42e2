// Causes and effects: which items of the other columns belong to one. Pure.
import type { Additions } from "../api/types.ts";
import { COLUMNS, type Column, type Order, type Place } from "./order.ts";

export type Lit = Record<Column, number[]>;
type Items = Pick<Additions, "frames" | "events" | "outputs">;

export class Links {
  readonly #trace: Items;
  readonly #order: Order;
  readonly #eventsOf: number[][];
  readonly #outputsOfEvent: number[][];
  readonly #outputsOfFrame: number[][];

  constructor(trace: Items, order: Order) {
    this.#trace = trace;
    this.#order = order;
    this.#eventsOf = grouped(trace.events.map((event) => event.frame));
    this.#outputsOfEvent = grouped(trace.outputs.map((output) => output.event));
    this.#outputsOfFrame = grouped(trace.outputs.map((output) => output.frame));
  }

  /** All that an item came of, the item, and all that came of it. */
  of(place: Place): Lit {
    if (place.column === "frames") return this.#ofFrame(place.index);
    return place.column === "events" ? this.#ofEvent(place.index) : this.#ofOutput(place.index);
  }

  #ofFrame(index: number): Lit {
    const events = this.#eventsOf[index] ?? [];
    const outputs = new Set(events.flatMap((event) => this.#outputsOfEvent[event] ?? []));
    // Passed on as it was: no event stands between.
    for (const output of this.#outputsOfFrame[index] ?? []) {
      if (this.#trace.outputs[output]?.event == null) outputs.add(output);
    }
    return { frames: [index], events, outputs: [...outputs].sort((a, b) => a - b) };
  }

  #ofEvent(index: number): Lit {
    const frame = this.#trace.events[index]?.frame;
    return { frames: frame == null ? [] : [frame], events: [index], outputs: this.#outputsOfEvent[index] ?? [] };
  }

  #ofOutput(index: number): Lit {
    const output = this.#trace.outputs[index];
    const event = output?.event ?? null;
    const frame = (event === null ? output?.frame : this.#trace.events[event]?.frame) ?? null;
    const events = event === null ? [] : [event];
    return { frames: frame === null ? [] : [frame], events, outputs: [index] };
  }

  /** The item of another column to go to from here: a linked one, or else the nearest. */
  across(place: Place, column: Column): Place | null {
    const linked = this.of(place)[column][0];
    if (linked !== undefined) return { column, index: linked };
    const slot = this.#order.slots[place.column][place.index] ?? 0;
    const index = lastUpTo(this.#order.slots[column], slot);
    return this.#order.counts[column] ? { column, index: Math.max(index, 0) } : null;
  }

  /** The first and the last slot of all that is lit. */
  reachOf(lit: Lit): { first: number; last: number } {
    const slots = COLUMNS.flatMap((column) => lit[column].map((index) => this.#order.slots[column][index] ?? 0));
    return { first: Math.min(...slots), last: Math.max(...slots) };
  }
}

function grouped(causes: (number | null)[]): number[][] {
  const found: number[][] = [];
  for (const [index, cause] of causes.entries()) {
    if (cause === null) continue;
    const list = found[cause];
    if (list) list.push(index);
    else found[cause] = [index];
  }
  return found;
}

/** The last index whose value is at most `limit` in a list that grows; -1 if there is none. */
export function lastUpTo(values: ArrayLike<number>, limit: number): number {
  let [low, high] = [0, values.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((values[middle] ?? 0) <= limit) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
