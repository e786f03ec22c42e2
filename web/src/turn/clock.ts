// Times of a turn and the axis they are drawn on: by the clock, or by order where there is none. Pure.
import type { Frame } from "../api/types.ts";
import { lastUpTo } from "./linking.ts";
import type { Order, Place } from "./order.ts";
import { groupOf } from "./stepping.ts";

export type Axis = "time" | "order";

export interface Tick {
  at: number;
  label: string;
}

export class Clock {
  /** The time of each frame, never going backwards; empty where the trace has no times. */
  readonly times: number[];
  readonly duration: number;
  readonly #order: Order;

  /** `times`: those of a clock before it, when the trace has grown since. */
  constructor(frames: readonly Frame[], order: Order, timed: boolean, times: number[] = []) {
    let last = times.at(-1) ?? 0;
    for (let index = times.length; timed && index < frames.length; index++) {
      last = Math.max(last, frames[index]?.t ?? last);
      times.push(last);
    }
    this.times = times;
    this.duration = last;
    this.#order = order;
  }

  get timed(): boolean {
    return this.duration > 0;
  }

  /** Whether most frames came all at once: by the clock their events would lie on one another. */
  get bunched(): boolean {
    let close = 0;
    for (let index = 1; index < this.times.length; index++) {
      if ((this.times[index] ?? 0) - (this.times[index - 1] ?? 0) < this.duration / 1000) close++;
    }
    return this.times.length < 3 || close > this.times.length / 2;
  }

  /** Seconds since the turn began at a group of the ledger; the end of input is as late as the last frame. */
  timeOf(group: number): number {
    return this.times[Math.min(group, this.times.length - 1)] ?? 0;
  }

  /** 0 to 1: where an item lies on the axis. */
  share(axis: Axis, place: Place): number {
    if (axis === "time") return this.duration ? this.timeOf(groupOf(this.#order, place)) / this.duration : 0;
    return ((this.#order.slots[place.column][place.index] ?? 0) + 0.5) / Math.max(this.#order.size, 1);
  }

  /** The frame at a share of the axis: the last that had come by then, -1 before the first. */
  frameAt(axis: Axis, share: number): number {
    if (axis === "time") return lastUpTo(this.times, share * this.duration + 1e-9);
    return lastUpTo(this.#order.slots.frames, Math.floor(share * this.#order.size));
  }

  /** The ticks of an axis of so many pixels; their labels do not overlap. */
  ticks(axis: Axis, width: number): Tick[] {
    const whole = axis === "time" ? this.duration : this.#order.counts.frames;
    if (!whole || !width) return [];
    const least = whole / Math.max(width / TICK_ROOM, 1);
    const step = axis === "time" ? niceStep(least) : Math.max(niceStep(least), 1);
    const found: Tick[] = [];
    for (let count = 0; count * step <= whole * 1.0001; count++) {
      // Frames are numbered from 1.
      const value = axis === "order" ? Math.max(count * step, 1) : count * step;
      const at = axis === "time" ? value / whole : this.#shareOfFrame(value - 1);
      found.push({ at, label: axis === "time" ? formatSeconds(value, step) : value.toLocaleString("en") });
    }
    return withoutOverlap(found, width);
  }

  #shareOfFrame(index: number): number {
    return this.share("order", { column: "frames", index });
  }
}

/** Pixels that a tick should have, and about what its label takes. */
const TICK_ROOM = 110;
const LETTER = 7;
const LABEL_PADDING = 10;
/** Beyond this share of the axis a label stands before its tick. */
export const LAST_SHARE = 0.97;

/** Leaves out ticks whose labels would lie on one before them. */
function withoutOverlap(ticks: Tick[], width: number): Tick[] {
  let end = Number.NEGATIVE_INFINITY;
  return ticks.filter(({ at, label }) => {
    const room = label.length * LETTER + LABEL_PADDING;
    const start = at > LAST_SHARE ? at * width - room : at * width;
    if (start < end) return false;
    end = start + room;
    return true;
  });
}

/** 1, 2 or 5 times a power of ten, not below `least`. */
export function niceStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(least));
  const digits = [1, 2, 5, 10].find((digit) => digit * power >= least * 0.9999) ?? 10;
  return digits * power;
}

/** Digits after the point that tell values a step apart. */
function digitsOf(step: number): number {
  return Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
}

/** With `step`, as precise as the ticks of an axis need. */
export function formatSeconds(seconds: number, step = 0): string {
  if (seconds === 0) return "0";
  const small = (step || seconds) < 0.1 && seconds < 1;
  if (small) return `${(seconds * 1000).toFixed(step ? digitsOf(step * 1000) : 0)} ms`;
  return `${seconds.toFixed(step ? digitsOf(step) : seconds < 10 ? 2 : 1)} s`;
}
