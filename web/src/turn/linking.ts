// Causes and effects: which items of the other columns belong to one. Pure.
import type { Additions } from "../api/types.ts";
import { COLUMNS, type Column, type Order, type Place } from "./order.ts";

export type Lit = Record<Column, number[]>;
type Items = Pick<Additions, "frames" | "events" | "outputs">;

/** What was caused by each frame and by each event; goes on where it was when the trace has grown. */
export class Effects {
  readonly eventsOf: number[][] = [];
  readonly outputsOfEvent: number[][] = [];
  readonly outputsOfFrame: number[][] = [];
  #events = 0;
  #outputs = 0;

  extend({ events, outputs }: Items): this {
    for (; this.#events < events.length; this.#events++) {
      push(this.eventsOf, events[this.#events]?.frame, this.#events);
    }
    for (; this.#outputs < outputs.length; this.#outputs++) {
      push(this.outputsOfEvent, outputs[this.#outputs]?.event, this.#outputs);
      push(this.outputsOfFrame, outputs[this.#outputs]?.frame, this.#outputs);
    }
    return this;
  }
}

export class Links {
  readonly #trace: Items;
  readonly #order: Order;
  readonly #effects: Effects;

  constructor(trace: Items, order: Order, effects: Effects = new Effects().extend(trace)) {
    this.#trace = trace;
    this.#order = order;
    this.#effects = effects;
  }

  /** The cause of an item, the item, and its effects. */
  of(place: Place): Lit {
    if (place.column === "frames") return this.#ofFrame(place.index);
    return place.column === "events" ? this.#ofEvent(place.index) : this.#ofOutput(place.index);
  }

  #ofFrame(index: number): Lit {
    const events = this.#effects.eventsOf[index] ?? [];
    const outputs = new Set(events.flatMap((event) => this.#effects.outputsOfEvent[event] ?? []));
    // Passed on as it was: no event stands between.
    for (const output of this.#effects.outputsOfFrame[index] ?? []) {
      if (this.#trace.outputs[output]?.event == null) outputs.add(output);
    }
    return { frames: [index], events, outputs: [...outputs].sort((a, b) => a - b) };
  }

  #ofEvent(index: number): Lit {
    const frame = this.#trace.events[index]?.frame;
    return {
      frames: frame == null ? [] : [frame],
      events: [index],
      outputs: this.#effects.outputsOfEvent[index] ?? [],
    };
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

function push(lists: number[][], cause: number | null | undefined, effect: number): void {
  if (cause == null) return;
  const list = lists[cause];
  if (list) list.push(effect);
  else lists[cause] = [effect];
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
