// Tokens from the factors that came with the model list: synchronous, no request, no rounding, and cached by text, because
// a host asks for every string of every tool several times a round.

import type { Counting, Tool } from "../wire.ts";
import { counts, NAMES } from "./classes.ts";
import type { HostClasses } from "./host.ts";
import { type HostMessage, wireMessages } from "./messages.ts";
import { held, rendered } from "./rendering.ts";

const ENTRIES = 20_000;
const LETTERS = 8_000_000;
const PLAIN: Counting = { factors: {}, message: 4, image: 1000 };
const IMAGE = 1000;
const PER_LETTER = 0.3; // where a gateway sends no factors at all

/** Two generations: what is not asked for while one fills up is forgotten. */
export class TextCache {
  #young = new Map<string, number>();
  #old = new Map<string, number>();
  #letters = 0;
  private readonly entries: number;
  private readonly letters: number;

  constructor(entries = ENTRIES, letters = LETTERS) {
    this.entries = entries;
    this.letters = letters;
  }

  get(text: string): number | undefined {
    const found = this.#young.get(text);
    if (found !== undefined) return found;
    const older = this.#old.get(text);
    if (older !== undefined) this.set(text, older);
    return older;
  }

  set(text: string, tokens: number): void {
    if (this.#young.size >= this.entries || this.#letters + text.length > this.letters) {
      this.#old = this.#young;
      this.#young = new Map();
      this.#letters = 0;
    }
    this.#young.set(text, tokens);
    this.#letters += text.length;
  }

  get size(): number {
    return this.#young.size + this.#old.size;
  }
}

export class Counter {
  readonly #weights: Float64Array;
  readonly #beside: Record<"base" | "message" | "call" | "result" | "tools" | "tool", number>;
  readonly #schema: number;
  readonly #reasoning: number;
  readonly #image: number;
  readonly #rendering: string;
  readonly cache: TextCache;

  constructor(counting: Counting | undefined, cache = new TextCache()) {
    const {
      factors,
      factor = 1,
      base = 0,
      message = 0,
      call = 0,
      result = 0,
      tools = 0,
      tool = 0,
      schema = 1,
      reasoning = 1,
      image = IMAGE,
      rendering = "",
    } = counting ?? PLAIN;
    this.#weights = Float64Array.from(NAMES, (name) => factors[name] ?? 0);
    this.#beside = {
      base: base * factor,
      message: message * factor,
      call: call * factor,
      result: result * factor,
      tools: tools * factor,
      tool: tool * factor,
    };
    this.#schema = schema;
    this.#reasoning = reasoning;
    this.#image = image * factor;
    this.#rendering = rendering;
    this.cache = cache;
  }

  text(text: string): number {
    if (!text) return 0;
    const known = this.cache.get(text);
    if (known !== undefined) return known;
    const tokens = this.#weigh(text);
    this.cache.set(text, tokens);
    return tokens;
  }

  /** A message with all of its content, and what a message takes beside it. */
  message(message: HostMessage, host: HostClasses): number {
    const [wire] = wireMessages([message], host);
    return this.#beside.message + (wire ? this.#parts(wire.content) : 0);
  }

  /** A whole prompt: its messages, its tools, and what is paid once for either. */
  prompt(messages: readonly HostMessage[], tools: readonly Tool[], host: HostClasses): number {
    const { base, tools: once, tool: each } = this.#beside;
    const spoken = messages.reduce((sum, message) => sum + this.message(message, host), base);
    const read = (tool: Tool) => this.#schema * this.text(rendered(tool, this.#rendering));
    return tools.reduce((sum, tool) => sum + each + read(tool), spoken + (tools.length && once));
  }

  #weigh(text: string): number {
    const found = counts(text);
    let sum = 0;
    let weight = 0;
    for (let place = 0; place < found.length; place++) {
      sum += (found[place] ?? 0) * (this.#weights[place] ?? 0);
      weight += this.#weights[place] ?? 0;
    }
    return weight ? sum : text.length * PER_LETTER;
  }

  #parts(parts: readonly unknown[]): number {
    return parts.reduce<number>((sum, part) => sum + this.#part(part), 0);
  }

  #part(part: unknown): number {
    if (typeof part === "string") return this.text(part);
    const { kind, value, name, input, content, mimeType, data } = part as Record<string, unknown>;
    if (kind === "call") return this.#beside.call + this.text(String(name)) + this.#json(JSON.stringify(input ?? {}));
    if (kind === "result") return this.#beside.result + this.#parts(content as unknown[]);
    if (kind === "thinking") return this.#reasoning * this.text(Array.isArray(value) ? value.join("") : String(value));
    if (kind === "data") return this.#data(String(mimeType), String(data));
    return typeof value === "string" ? this.text(value) : this.text(JSON.stringify(part));
  }

  /** The host's own data (no slash in its type) is never sent to a model, so it costs nothing. */
  #data(type: string, data: string): number {
    if (!type.includes("/")) return 0;
    if (!type.startsWith("text/") && !type.endsWith("json")) return this.#image;
    const text = Buffer.from(data, "base64").toString("utf8");
    return type.endsWith("json") ? this.#json(text) : this.text(text);
  }

  #json(json: string): number {
    return this.text(held(json, this.#rendering));
  }
}

/** The counters of a model list. Models with the same factors share what was counted. */
export class CounterCache {
  readonly #counters = new Map<string, Counter>();
  readonly #texts = new Map<string, TextCache>();

  get(counting: Counting | undefined): Counter {
    const key = JSON.stringify(counting ?? null);
    const known = this.#counters.get(key);
    if (known) return known;
    const factors = JSON.stringify(counting?.factors ?? null);
    const texts = this.#texts.get(factors) ?? new TextCache();
    const counter = new Counter(counting, texts);
    this.#texts.set(factors, texts);
    this.#counters.set(key, counter);
    return counter;
  }

  /** Forget all but these counters, and what was counted with other factors. */
  prune(used: readonly Counter[]): void {
    const kept = new Set(used);
    for (const [key, counter] of this.#counters) if (!kept.has(counter)) this.#counters.delete(key);
    const texts = new Set(used.map((counter) => counter.cache));
    for (const [key, cache] of this.#texts) if (!texts.has(cache)) this.#texts.delete(key);
  }

  get size(): number {
    return this.#counters.size;
  }
}
