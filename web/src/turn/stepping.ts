// Where the reader stands in a turn: how much has happened at a place, and the next place. Pure.
import type { Additions } from "../api/types.ts";
import { lastUpTo } from "./linking.ts";
import type { Column, Order, Place } from "./order.ts";

/** How many of each have happened. */
export type Reach = Record<Column, number>;

/** At no place, all has happened. */
export function reachAt(trace: Pick<Additions, "outputs">, order: Order, place: Place | null): Reach {
  if (!place) return { ...order.counts };
  const { events, outputs } = order.groups;
  const group = groupOf(order, place);
  const reach = {
    frames: Math.min(group + 1, order.counts.frames),
    events: lastUpTo(events, group) + 1,
    outputs: lastUpTo(outputs, group) + 1,
  };
  if (place.column === "events") {
    reach.events = place.index + 1;
    while (reach.outputs > 0 && outputs[reach.outputs - 1] === group && later(trace, reach.outputs - 1, place.index)) {
      reach.outputs--;
    }
  }
  if (place.column === "outputs") {
    reach.outputs = place.index + 1;
    const event = trace.outputs[place.index]?.event ?? null;
    if (event !== null) reach.events = Math.max(event + 1, lastUpTo(events, group - 1) + 1);
  }
  return reach;
}

function later(trace: Pick<Additions, "outputs">, output: number, event: number): boolean {
  return (trace.outputs[output]?.event ?? -1) > event;
}

export function groupOf(order: Order, place: Place): number {
  if (place.column === "frames") return place.index;
  return order.groups[place.column][place.index] ?? order.counts.frames;
}

/** One step on or back in a column. Back from the end is the last item but one: the last is what the end shows. */
export function stepped(order: Order, column: Column, place: Place | null, by: number): Place | null {
  const count = order.counts[column];
  if (!count) return place;
  const from = place?.column === column ? place.index : place ? nearest(order, place, column) : count - 1;
  return { column, index: Math.max(0, Math.min(from + by, count - 1)) };
}

function nearest(order: Order, place: Place, column: Column): number {
  return lastUpTo(order.slots[column], order.slots[place.column][place.index] ?? 0);
}
