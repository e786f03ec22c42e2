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

  constructor(frames: Frame[], order: Order, timed: boolean) {
    let last = 0;
    this.times = timed ? frames.map((frame) => (last = Math.max(last, frame.t ?? last))) : [];
    this.duration = last;
    this.#order = order;
  }

  get timed(): boolean {
    return this.duration > 0;
  }

  /** Whether most frames came all at once: by the clock all that came of them would lie on one another. */
  get bunched(): boolean {
    const close = this.times.filter(
      (time, index) => index > 0 && time - (this.times[index - 1] ?? 0) < this.duration / 1000,
    );
    return this.times.length < 3 || close.length > this.times.length / 2;
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

  ticks(axis: Axis, wanted: number): Tick[] {
    const whole = axis === "time" ? this.duration : this.#order.counts.frames;
    if (!whole) return [];
    const step = Math.max(niceStep(whole / Math.max(wanted, 1)), axis === "time" ? 0 : 1);
    const found: Tick[] = [];
    for (let count = 0; count * step <= whole * 1.0001; count++) {
      const value = count * step;
      const at = axis === "time" ? value / whole : this.#shareOfFrame(Math.min(value, whole - 1));
      found.push({ at, label: axis === "time" ? formatSeconds(value, step) : `#${value}` });
    }
    return found;
  }

  #shareOfFrame(index: number): number {
    return this.share("order", { column: "frames", index });
  }
}

/** 1, 2 or 5 times a power of ten, not below `least`. */
export function niceStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(least));
  const digits = [1, 2, 5, 10].find((digit) => digit * power >= least * 0.9999) ?? 10;
  return digits * power;
}

export function formatSeconds(seconds: number, step = 0): string {
  if (seconds === 0) return "0";
  if ((step || seconds) < 0.1 && seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  const digits = step ? Math.max(0, -Math.floor(Math.log10(step) + 1e-9)) : seconds < 10 ? 2 : 1;
  return `${seconds.toFixed(digits)} s`;
}
