// What the status bar says: the gateway's state, the size of the prompt, how full the window is, what is waited for, what
// was shortened. Words only, made from values; the item itself is in telling.ts.

import { describeSize, measure, type PromptSize, withCommas } from "./chat/preflight.ts";
import { type Budget, budgetText, describeBudget } from "./extras/budget.ts";
import type { State } from "./gateway/keeper.ts";
import { assumedWindow, inputLimit } from "./models.ts";
import type { CompactedLine, Model, Tokens, WaitLine } from "./wire.ts";

export interface Shown {
  readonly text: string;
  readonly tooltip: string;
  readonly warning: boolean;
}

interface Wait {
  readonly until: number;
  readonly text: (left: number) => string;
}

interface Prompt {
  readonly size: PromptSize;
  readonly model: Model;
}

interface Usage {
  readonly tokens: Tokens;
  readonly model: Model;
  readonly estimated: boolean;
}

export class Status {
  readonly #waits = new Map<object, Wait>();
  readonly #now: () => number;
  #state: State = { is: "idle" };
  #trouble = "";
  #request: object | undefined;
  #prompt: Prompt | undefined;
  #usage: Usage | undefined;
  #answered = false;
  #compacted: CompactedLine | undefined;
  #budget: Budget | undefined;

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

  /** What is spent of the daily budget; undefined: there is none. */
  budget(budget: Budget | undefined): void {
    this.#budget = budget;
  }

  /** A person asks something: what was said of the question before is over. */
  begin(request: object): void {
    this.#request = request;
    this.#prompt = undefined;
    this.#answered = false;
    this.#compacted = undefined;
  }

  /** The prompt of a request was counted. A count that arrives after the next question is ignored. */
  prompt(request: object, size: PromptSize, model: Model): void {
    if (request === this.#request) this.#prompt = { size, model };
  }

  used(request: object, tokens: Tokens, model: Model, estimated = false): void {
    this.#usage = { tokens, model, estimated };
    this.#answered ||= request === this.#request;
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
    const warning = this.#sizeWarning();
    const { before } = this.#compacted ?? {};
    const compacted = this.#compacted && `compacted${before ? ` from ${short(before)}` : ""}`;
    const spent = budgetText(this.#budget);
    const more = waiting || [this.#tokens(), warning.short, compacted, spent].filter(Boolean).join(", ");
    const bad = this.#state.is === "failed" || this.#trouble !== "" || spent !== "";
    const icon = waiting ? "watch" : bad || warning.short ? "warning" : ICONS[this.#state.is];
    const budget = describeBudget(this.#budget);
    const lines = [this.#about(), this.#trouble, describeUsage(this.#usage), describePrompt(this.#prompt)];
    return {
      text: `$(${icon}) Penstock${more ? `: ${more}` : ""}`,
      tooltip: [...lines, warning.long, waiting, this.#shortened(), budget].filter(Boolean).join("\n\n"),
      warning: bad || warning.short !== "",
    };
  }

  /** While a question is answered the size of its prompt, then what was used. */
  #tokens(): string {
    if (this.#prompt && !this.#answered) {
      const { tokens, limit } = this.#prompt.size;
      return `prompt ${share(tokens, limit)}`;
    }
    return this.#usage ? share(this.#usage.tokens.total_tokens ?? 0, windowOf(this.#usage.model)) : "";
  }

  /** A prompt at 90% of a known limit or more. What the provider counted goes before any count of ours. */
  #sizeWarning(): { readonly short: string; readonly long: string } {
    const { model, size } = this.#lastSize() ?? {};
    if (!model || !size?.level) return { short: "", long: "" };
    const where = size.level === "over" ? "over the limit" : "near the limit";
    const then = model.compacts
      ? "The gateway shortens a conversation that the provider refuses."
      : "If the provider refuses it, start a new chat, attach less or pick a model with a larger window.";
    return {
      short: where,
      long: `The prompt is ${where} of ${model.name}: ${describeSize(size)}. It was sent. ${then}`,
    };
  }

  #lastSize(): Prompt | undefined {
    const { tokens, model, estimated } = this.#usage ?? {};
    if (!this.#answered || !model || estimated || tokens?.prompt_tokens === undefined) return this.#prompt;
    const limit = this.#prompt ? this.#prompt.size.limit : inputLimit(model);
    return { model, size: measure({ tokens: tokens.prompt_tokens, method: "actual" }, limit) };
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

/** The context window, where it is known. */
const windowOf = (model: Model): number | undefined => {
  const limit = inputLimit(model);
  return limit && Math.max(limit, model.maxContextWindowTokens ?? 0);
};

function share(tokens: number, whole: number | undefined): string {
  return whole
    ? `${short(tokens)} of ${short(whole)} (${Math.round((100 * tokens) / whole)}%)`
    : `${short(tokens)} tokens`;
}

function describePrompt(prompt: Prompt | undefined): string {
  return prompt ? `The prompt, as counted before it was answered: ${describeSize(prompt.size)}.` : "";
}

function describeUsage(usage: Usage | undefined): string {
  if (!usage) return "";
  const { tokens, model, estimated } = usage;
  const [prompt, completion] = [tokens.prompt_tokens ?? 0, tokens.completion_tokens ?? 0].map(withCommas);
  const window = windowOf(model);
  const room = window
    ? `The context window of ${model.name} is ${withCommas(window)} tokens.`
    : `The context window of ${model.name} is not known: ${withCommas(assumedWindow(model))} tokens are assumed.`;
  return `Last reply: ${prompt} tokens in, ${completion} out (${estimated ? "estimated" : "actual"}). ${room}`;
}

export function short(number: number): string {
  if (number < 1_000) return String(Math.round(number));
  const [value, unit] = number < 999_500 ? [number / 1_000, "k"] : [number / 1_000_000, "M"];
  return `${value < 10 ? value.toFixed(1).replace(/\.0$/, "") : Math.round(value)}${unit}`;
}
