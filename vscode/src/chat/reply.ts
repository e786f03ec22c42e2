// The lines of one reply → the host's parts, reported as they come. Holds the host's rules: a reply has text or a call, or
// it is an error that says why; a call is given once; every reply ends with usage.

import { Failure, failureOf } from "../errors.ts";
import type { CallLine, Line, ThinkingLine, Tokens } from "../wire.ts";
import type { HostClasses } from "./host.ts";

export type Reasoning = "thinking" | "text" | "drop";
const PREFIX = "[Thinking] ";

export interface ReplyOptions {
  readonly host: HostClasses;
  readonly report: (part: unknown) => void;
  readonly provider: string;
  readonly model: string;
  /** How thinking is shown; `thinking` needs a host that has the class. */
  readonly reasoning?: Reasoning;
  /** Usage where the gateway sent none: of the prompt, and of what was said. */
  readonly estimate: (said: string) => Tokens;
  readonly onCall?: (line: CallLine) => void;
  /** The size of the prompt in words, for a provider's error that it is too long. */
  readonly promptSize?: () => string;
  readonly onUsage?: (tokens: Tokens, estimated: boolean) => void;
  readonly log?: (line: string) => void;
}

export class Reply {
  readonly #options: ReplyOptions;
  readonly #reasoning: Reasoning;
  readonly #calls = new Set<string>();
  #said = "";
  #shown = false;
  #thought = false;
  #counted = false;
  #id = "";
  #over = false;

  constructor(options: ReplyOptions) {
    this.#options = options;
    const wanted = options.reasoning ?? "thinking";
    this.#reasoning = wanted === "thinking" && !options.host.Thinking ? "drop" : wanted;
  }

  take(line: Line): void {
    // A union of eleven kinds, each with its own method: the table is exhaustive by its type.
    (this.#on[line.kind] as (line: Line) => void)(line);
  }

  /** The stream is over: whatever is missing is said. */
  finish(): void {
    if (!this.#over) throw new Failure(`${this.#who} broke off before the end of its answer: try again.`, "truncated");
  }

  get #who(): string {
    return this.#options.provider || "The gateway";
  }

  #text(value: string): void {
    if (!value) return;
    this.#said += value;
    this.#shown ||= value.trim() !== "";
    this.#options.report(new this.#options.host.Text(value));
  }

  #thinking({ value, id, metadata }: ThinkingLine): void {
    const { host, report } = this.#options;
    if (this.#reasoning === "thinking" && host.Thinking) {
      report(new host.Thinking(value, id, metadata as object | undefined));
    } else if (this.#reasoning === "text" && value) {
      report(new host.Text(this.#thought ? value : PREFIX + value));
      this.#thought = true;
    }
    this.#said += value;
  }

  #call(line: CallLine): void {
    if (this.#calls.has(line.callId)) return;
    this.#calls.add(line.callId);
    this.#shown = true;
    this.#said += JSON.stringify(line.input);
    this.#options.onCall?.(line);
    this.#options.report(new this.#options.host.Call(line.callId, line.name, line.input));
  }

  /** Usage, if it is whole. A prompt of no tokens is one that nobody counted: ours is nearer. */
  #usage(value: Tokens, estimated = false): void {
    const { prompt_tokens: said, completion_tokens: completion, total_tokens: total } = value;
    if (said === undefined || completion === undefined) return;
    const prompt = said || (this.#options.estimate("").prompt_tokens ?? 0);
    const whole = { ...value, prompt_tokens: prompt, total_tokens: said && total ? total : prompt + completion };
    this.#counted = true;
    this.#data(Buffer.from(JSON.stringify(whole)), "usage");
    this.#options.onUsage?.(whole, estimated || !said);
  }

  #data(data: Uint8Array, type: string): void {
    this.#options.report(new this.#options.host.Data(new Uint8Array(data), type));
  }

  /** The end: the mark by which the gateway finds this turn's state again, usage if there was none, and a reason if needed. */
  #end(message: string | undefined, reason: string): void {
    this.#over = true;
    if (this.#shown && this.#id) this.#data(Buffer.from(`${this.#options.model}\\${this.#id}`), "stateful_marker");
    if (!this.#counted) this.#usage(this.#options.estimate(this.#said), true);
    if (message) throw new Failure(message);
    if (!this.#shown)
      throw new Failure(`${this.#who} gave neither text nor a call (${reason}): ask again or pick another model.`);
  }

  readonly #on: { readonly [K in Line["kind"]]: (line: Extract<Line, { kind: K }>) => void } = {
    start: (line) => {
      this.#id = line.id ?? "";
    },
    text: (line) => {
      if (this.#thought) this.#options.report(new this.#options.host.Text("\n\n"));
      this.#thought = false;
      this.#text(line.value);
    },
    thinking: (line) => this.#thinking(line),
    call: (line) => this.#call(line),
    cut: (line) => this.#options.log?.(`the call ${line.callId} of ${line.name} never became whole and is not run`),
    data: (line) => this.#data(Buffer.from(line.data, "base64"), line.mimeType),
    usage: (line) => this.#usage(line.value, line.estimated),
    // Notices beside a reply are not part of it: see waiting.ts.
    wait: () => {},
    compacted: () => {},
    error: (line) => {
      this.#over = true;
      throw failureOf(line, this.#options.provider, this.#options.promptSize);
    },
    end: (line) => this.#end(line.message, line.raw ?? line.reason),
  };
}
