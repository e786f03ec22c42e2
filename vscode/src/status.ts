// What the status bar says: the gateway's state, how full the window is, what is waited for, what was shortened. Words
// only, made from values; the item itself is in extension.ts.

import type { State } from "./gateway/keeper.ts";
import type { CompactedLine, Tokens, WaitLine } from "./wire.ts";

export interface Shown {
  readonly text: string;
  readonly tooltip: string;
  readonly warning: boolean;
}

interface Wait {
  readonly until: number;
  readonly text: (left: number) => string;
}

export class Status {
  readonly #waits = new Map<object, Wait>();
  readonly #now: () => number;
  #state: State = { is: "idle" };
  #trouble = "";
  #usage = "";
  #tight = "";
  #compacted: CompactedLine | undefined;

  constructor(now: () => number = Date.now) {
    this.#now = now;
  }

  gateway(state: State): void {
    this.#state = state;
  }

  /** The list of models cannot be had, though the gateway answers; empty: it can. */
  trouble(why: string): void {
    this.#trouble = why;
  }

  /** A person asks something: what was said of the question before is over. */
  begin(): void {
    this.#tight = "";
    this.#compacted = undefined;
  }

  used(tokens: Tokens, model: { name: string; maxContextWindowTokens?: number; maxInputTokens: number }): void {
    const window = model.maxContextWindowTokens ?? model.maxInputTokens;
    const share = Math.round((100 * (tokens.total_tokens ?? 0)) / window);
    this.#usage = `${short(tokens.total_tokens ?? 0)} of ${short(window)} (${share}%)`;
  }

  tight(tokens: number, model: { name: string; maxInputTokens: number }): void {
    this.#tight = `The prompt is about ${short(tokens)} of the ${short(model.maxInputTokens)} tokens that ${model.name} takes.`;
  }

  /** The gateway waits before it asks a provider again: the seconds that are left are shown. */
  wait(request: object, { seconds, message }: WaitLine): void {
    const why = message ? `: ${message}` : "";
    const text = (left: number) => (left > 0 ? `waiting ${Math.ceil(left)} s${why}` : `asking again${why}`);
    this.#waits.set(request, { until: this.#now() + seconds * 1000, text });
  }

  /** A provider has said nothing for so many seconds. */
  silence(request: object, seconds: number, who: string): void {
    const since = this.#now() - seconds * 1000;
    this.#waits.set(request, { until: since, text: (left) => `${who} has been silent for ${Math.floor(-left)} s` });
  }

  /** What a request waited for is there, or given up. */
  over(request: object): void {
    this.#waits.delete(request);
  }

  compacted(line: CompactedLine): void {
    this.#compacted = line;
  }

  /** Whether what is shown changes by the second. */
  get ticking(): boolean {
    return this.#waits.size > 0;
  }

  shown(): Shown {
    const waiting = this.#waiting();
    const { before } = this.#compacted ?? {};
    const compacted = this.#compacted && `compacted${before ? ` from ${short(before)}` : ""}`;
    const more = waiting || [this.#usage, compacted].filter(Boolean).join(", ");
    const bad = this.#state.is === "failed" || this.#trouble !== "";
    const icon = waiting ? "watch" : bad ? "warning" : ICONS[this.#state.is];
    const lines = [this.#about(), this.#trouble, this.#usage && `Last reply: ${this.#usage} tokens.`];
    return {
      text: `$(${icon}) Penstock${more ? `: ${more}` : ""}`,
      tooltip: [...lines, waiting, this.#shortened(), this.#tight].filter(Boolean).join("\n\n"),
      warning: bad || this.#tight !== "",
    };
  }

  /** The wait that lasts longest. */
  #waiting(): string {
    const [wait] = [...this.#waits.values()].sort((a, b) => b.until - a.until);
    return wait?.text((wait.until - this.#now()) / 1000) ?? "";
  }

  #shortened(): string {
    if (!this.#compacted) return "";
    const { before, after } = this.#compacted;
    const sizes = before && after ? `, from ${short(before)} to ${short(after)} tokens` : "";
    return `The gateway shortened the conversation before it sent it${sizes}.`;
  }

  #about(): string {
    const state = this.#state;
    if (state.is === "ready")
      return `The gateway ${state.own ? "of this machine's windows" : "of the settings"} is at ${state.url}.`;
    if (state.is === "failed") return state.why;
    return state.is === "starting" ? "The gateway is being started." : "No gateway has been needed so far.";
  }
}

const ICONS = { idle: "circle-outline", starting: "loading~spin", ready: "pass", failed: "warning" } as const;

export function short(number: number): string {
  if (number < 1_000) return String(Math.round(number));
  const [value, unit] = number < 999_500 ? [number / 1_000, "k"] : [number / 1_000_000, "M"];
  return `${value < 10 ? value.toFixed(1).replace(/\.0$/, "") : Math.round(value)}${unit}`;
}
