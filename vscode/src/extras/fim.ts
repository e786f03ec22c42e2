// Inline completions by filling in the middle, as values: what is asked, what is cached, when to ask. Off by default.

import { isBlank } from "./eligibility.ts";

export interface Place {
  readonly prefix: string;
  readonly suffix: string;
}

const BEFORE = 6_000;
const AFTER = 2_000;
const MOST = 64;
const LINE_TOKENS = 64;
const BLOCK_TOKENS = 256;
// After these a line is complete, so that more lines may follow: closing brackets, quotes, separators.
const CLOSING = /^[\s)\]}>"'`;,:]*$/;

/** The text around the cursor that is worth sending. */
export function placeOf(text: string, offset: number): Place {
  return { prefix: text.slice(Math.max(0, offset - BEFORE), offset), suffix: text.slice(offset, offset + AFTER) };
}

/** Whether a completion may have several lines: nothing but closing characters stands between the cursor and the end of its line. */
export function mayBeBlock({ suffix }: Place): boolean {
  return CLOSING.test(firstLine(suffix));
}

export function fimBody(model: string, place: Place): object {
  const length = mayBeBlock(place) ? { max_tokens: BLOCK_TOKENS } : { max_tokens: LINE_TOKENS, stop: ["\n"] };
  return { model, prompt: place.prefix, suffix: place.suffix, temperature: 0.1, stream: false, ...length };
}

/** What is drawn of an answer: without what stands after the cursor already, and without blanks at the end. */
export function trimCompletion(answer: string, place: Place): string {
  const text = answer.replaceAll("\r\n", "\n");
  const kept = mayBeBlock(place) ? beforeRepeated(text, place.suffix) : firstLine(text);
  const rest = firstLine(place.suffix).trimEnd();
  const own = rest && kept.endsWith(rest) ? kept.slice(0, -rest.length) : kept;
  const trimmed = own.replace(/(?<!\s)\s+$/, "");
  return isBlank(trimmed) ? "" : trimmed;
}

/** The lines before one that repeats the next line of the document. */
function beforeRepeated(text: string, suffix: string): string {
  const next = suffix
    .split("\n")
    .slice(1)
    .find((line) => !isBlank(line))
    ?.trim();
  if (!next || CLOSING.test(next)) return text;
  const lines = text.split("\n");
  const repeated = lines.findIndex((line, number) => number > 0 && line.trim() === next);
  return repeated < 0 ? text : lines.slice(0, repeated).join("\n");
}

const firstLine = (text: string): string => text.split("\n", 1)[0] ?? "";

/** Completions that were given, found again also after some of one has been typed. */
export class Completions {
  readonly #known: { model: string; place: Place; text: string }[] = [];

  put(model: string, place: Place, text: string): void {
    this.#known.unshift({ model, place, text });
    this.#known.length = Math.min(this.#known.length, MOST);
  }

  /** The rest of a completion; empty if it is known that there is none; undefined if nothing is known. */
  get(model: string, { prefix, suffix }: Place): string | undefined {
    for (const { model: asked, place, text } of this.#known) {
      if (asked !== model || place.suffix !== suffix) continue;
      const start = overlap(place.prefix, prefix);
      if (start === undefined) continue;
      const typed = prefix.slice(start);
      if (typed === "" && text === "") return "";
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

export interface FillerEvents {
  readonly failed: (error: unknown) => void;
  /** A provider has answered; `milliseconds` without the delay before the request. */
  readonly answered?: (milliseconds: number, characters: number) => void;
}

/** Fills in: from memory, or by asking once the typing has stopped. Typing on ends either; a failure is only logged. */
export class Filler {
  readonly #known = new Completions();
  readonly #ask: (body: object, signal: AbortSignal) => Promise<string>;
  readonly #events: FillerEvents;

  constructor(ask: (body: object, signal: AbortSignal) => Promise<string>, events: FillerEvents) {
    this.#ask = ask;
    this.#events = events;
  }

  /** `allowed` is asked while the typing rests; nothing is sent unless it says so. */
  async fill(
    place: Place,
    { model, delay }: Wish,
    signal: AbortSignal,
    allowed: () => Promise<boolean> = async () => true,
  ): Promise<string> {
    if (isBlank(place.prefix) || !model) return "";
    const cached = this.#known.get(model, place);
    if (cached !== undefined) return cached;
    const [rested, permitted] = await Promise.all([debounce(delay, signal), allowed()]);
    if (!rested || !permitted || signal.aborted) return "";
    const began = performance.now();
    try {
      const text = trimCompletion(await this.#ask(fimBody(model, place), signal), place);
      this.#events.answered?.(Math.round(performance.now() - began), text.length);
      this.#known.put(model, place, text);
      return text;
    } catch (error) {
      if (!signal.aborted) this.#events.failed(error);
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
    if (signal.aborted) return resolve(false);
    const timer = setTimeout(() => resolve(!signal.aborted), milliseconds);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve(false);
    });
  });
}

/** Whether completions are on for a language, by a setting such as `{"*": true, "markdown": false}`. */
export function enabledFor(languages: Readonly<Record<string, boolean>>, language: string): boolean {
  return languages[language] ?? languages["*"] ?? true;
}
