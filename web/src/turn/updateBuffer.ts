// Gathers what comes of a live trace, and shows it at most eight times a second.
import type { Additions, Trace } from "../api/types.ts";
import { extended } from "./extending.ts";

export type SetTrace = (change: (old: Trace | null) => Trace | null) => void;

/** Milliseconds between two drawings of a live turn: a reader sees no difference, and a faster page costs twice as much. */
export const DRAWN_EVERY = 125;

/** When `signal` fires, another trace takes the place of this one: what waits is discarded. */
export class UpdateBuffer {
  readonly #set: SetTrace;
  readonly #signal: AbortSignal;
  #waiting: Additions[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(set: SetTrace, signal: AbortSignal) {
    this.#set = set;
    this.#signal = signal;
  }

  add(more: Additions): void {
    this.#waiting.push(more);
    if (more.done) this.flush();
    else this.#timer ??= setTimeout(() => this.flush(), DRAWN_EVERY);
  }

  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const waiting = this.#waiting;
    this.#waiting = [];
    if (waiting.length && !this.#signal.aborted) this.#set((old) => old && waiting.reduce(extended, old));
  }
}
