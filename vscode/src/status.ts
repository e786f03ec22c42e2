// What the status bar says: the gateway's state, how full the window is, what is waited for. Words only, made from values;
// the item itself is in extension.ts.

import type { State } from "./gateway/keeper.ts";
import type { CompactedLine, Tokens, WaitLine } from "./wire.ts";

export interface Shown {
  readonly text: string;
  readonly tooltip: string;
  readonly warning: boolean;
}

export class Status {
  #state: State = { is: "idle" };
  #usage = "";
  #tight = "";
  #notice = "";

  gateway(state: State): void {
    this.#state = state;
  }

  used(tokens: Tokens, model: { name: string; maxContextWindowTokens?: number; maxInputTokens: number }): void {
    const window = model.maxContextWindowTokens ?? model.maxInputTokens;
    const share = Math.round((100 * (tokens.total_tokens ?? 0)) / window);
    this.#usage = `${short(tokens.total_tokens ?? 0)} of ${short(window)} (${share}%)`;
    this.#notice = "";
    this.#tight = "";
  }

  tight(tokens: number, model: { name: string; maxInputTokens: number }): void {
    this.#tight = `The prompt is about ${short(tokens)} of the ${short(model.maxInputTokens)} tokens that ${model.name} takes.`;
  }

  notice(line: WaitLine | CompactedLine): void {
    if (line.kind === "wait")
      this.#notice = `waiting ${Math.ceil(line.seconds)} s${line.message ? `: ${line.message}` : ""}`;
    else this.#notice = `compacted${line.before && line.after ? `: ${short(line.before)} → ${short(line.after)}` : ""}`;
  }

  /** A request is over, whatever became of it. */
  over(): void {
    if (this.#notice.startsWith("waiting")) this.#notice = "";
  }

  shown(): Shown {
    const icon = ICONS[this.#state.is];
    const more = this.#notice || this.#usage;
    const lines = [this.#about(), this.#usage && `Last reply: ${this.#usage} tokens.`, this.#notice, this.#tight];
    return {
      text: `$(${icon}) Penstock${more ? `: ${more}` : ""}`,
      tooltip: lines.filter(Boolean).join("\n\n"),
      warning: this.#state.is === "failed" || this.#tight !== "",
    };
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
