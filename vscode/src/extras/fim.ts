// Inline completions by filling in the middle, as values: what is asked, what is cached, when to ask. Off by default.

import { isBlank } from "./eligibility.ts";

export interface Place {
  readonly prefix: string;
  readonly suffix: string;
}

const BEFORE = 6_000;
const AFTER = 2_000;
const MOST = 64;

/** The text around the cursor that is worth sending. */
export function placeOf(text: string, offset: number): Place {
  return { prefix: text.slice(Math.max(0, offset - BEFORE), offset), suffix: text.slice(offset, offset + AFTER) };
}

export function fimBody(model: string, { prefix, suffix }: Place): object {
  return { model, prompt: prefix, suffix, max_tokens: 128, temperature: 0.1, stream: false };
}

/** Completions that were given, found again also after some of one has been typed. */
export class Completions {
  readonly #known: { place: Place; text: string }[] = [];

  put(place: Place, text: string): void {
    this.#known.unshift({ place, text });
    this.#known.length = Math.min(this.#known.length, MOST);
  }

  get({ prefix, suffix }: Place): string | undefined {
    for (const { place, text } of this.#known) {
      if (place.suffix !== suffix) continue;
      const start = overlap(place.prefix, prefix);
      if (start === undefined) continue;
      const typed = prefix.slice(start);
      if (text.startsWith(typed) && text.length > typed.length) return text.slice(typed.length);
    }
    return undefined;
  }
}

export interface Wish {
  readonly model: string;
  /** Milliseconds without typing before anybody is asked. */
  readonly delay: number;
}

/** Fills in: from memory, or by asking once the typing has stopped. Whoever types on ends either; a failure is only logged. */
export class Filler {
  readonly #known = new Completions();
  readonly #ask: (body: object, signal: AbortSignal) => Promise<string>;
  readonly #failed: (error: unknown) => void;

  constructor(ask: (body: object, signal: AbortSignal) => Promise<string>, failed: (error: unknown) => void) {
    this.#ask = ask;
    this.#failed = failed;
  }

  async fill(place: Place, { model, delay }: Wish, signal: AbortSignal): Promise<string> {
    if (isBlank(place.prefix)) return "";
    const cached = this.#known.get(place);
    if (cached) return cached;
    if (!model || !(await debounce(delay, signal))) return "";
    try {
      const text = await this.#ask(fimBody(model, place), signal);
      if (text) this.#known.put(place, text);
      return text;
    } catch (error) {
      if (!signal.aborted) this.#failed(error);
      return "";
    }
  }
}

/** Where in `now` the text that `then` ended with ends, if `now` is `then` with something typed after it. */
function overlap(then: string, now: string): number | undefined {
  for (let typed = 0; typed <= Math.min(now.length, 200); typed++) {
    const head = now.slice(0, now.length - typed);
    if (head === then || (head.length >= BEFORE - 200 && then.endsWith(head))) return head.length;
  }
  return undefined;
}

/** Wait a moment; false if the caller was cancelled meanwhile. */
export function debounce(milliseconds: number, signal: AbortSignal): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(!signal.aborted), milliseconds);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve(false);
    });
  });
}
