// What follows from a trace alone: its order, links, clock and lanes. A live turn grows many times a second; what was
// known before it grew is kept, so that the cost of an update does not grow with the turn. Pure.
import type { Trace } from "../api/types.ts";
import { Clock } from "./clock.ts";
import { type Lane, LaneBuilder } from "./lanes.ts";
import { Effects, Links } from "./linking.ts";
import { type Order, OrderBuilder } from "./order.ts";

export interface Derived {
  order: Order;
  links: Links;
  clock: Clock;
  lanes: Lane[];
}

export class DerivedBuilder {
  #trace: Trace | null = null;
  #order = new OrderBuilder();
  #effects = new Effects();
  #lanes = new LaneBuilder();
  #times: number[] = [];

  /** Of a trace that has grown, or of another one. The end of a turn is laid out as a whole. */
  extend(trace: Trace): Derived {
    const before = this.#trace;
    if (!before || before.done || trace.done || !hasGrown(before, trace)) this.#begin();
    this.#trace = trace;
    const order = this.#order.extend(trace);
    return {
      order,
      links: new Links(trace, order, this.#effects.extend(trace)),
      clock: new Clock(trace.frames, order, trace.timed, this.#times),
      lanes: this.#lanes.extend(trace.events),
    };
  }

  #begin(): void {
    this.#order = new OrderBuilder();
    this.#effects = new Effects();
    this.#lanes = new LaneBuilder();
    this.#times = [];
  }
}

/** Whether a trace begins with another: its lists are the same ones, longer by now. */
function hasGrown(before: Trace, now: Trace): boolean {
  return (
    before.frames === now.frames &&
    before.events === now.events &&
    before.outputs === now.outputs &&
    before.timed === now.timed
  );
}
