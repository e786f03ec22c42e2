// The size of a prompt, counted beside its request. The gateway's count uses what the provider counted in earlier turns; the
// local estimate stands in while that count is missing. A request never waits for a count, and no count refuses a request.

import { said } from "../errors.ts";
import { inputLimit } from "../models.ts";
import type { CountedPrompt, Model, PromptCount } from "../wire.ts";

const NEAR = 0.9; // share of the limit from which a prompt is warned of
const SLOW = 300; // milliseconds after which the local estimate is shown, until the gateway's count arrives

/** A count, the model's input limit where it is known, and how the two compare. */
export interface PromptSize extends PromptCount {
  readonly limit?: number;
  readonly level?: "near" | "over";
}

export interface PreflightOptions {
  readonly model: Model;
  /** The local estimate, which is computed only if it is needed. */
  readonly estimate: () => number;
  /** Called with the first size, and with each better one. */
  readonly onSize: (size: PromptSize) => void;
  readonly log?: ((line: string) => void) | undefined;
  /** Milliseconds to wait for the gateway's count before the local estimate is shown. */
  readonly slow?: number | undefined;
}

export class Preflight {
  readonly #options: PreflightOptions;
  #counted: PromptSize | undefined;
  #estimated: PromptSize | undefined;

  constructor(options: PreflightOptions) {
    this.#options = options;
  }

  /** The best size so far. */
  get size(): PromptSize {
    return this.#counted ?? this.#estimate();
  }

  /** Call `count`, and tell what it gives. Never rejects. */
  async run(count: () => Promise<CountedPrompt | undefined>, signal: AbortSignal): Promise<void> {
    const { onSize, log, slow = SLOW } = this.#options;
    const timer = setTimeout(() => onSize(this.size), slow);
    try {
      const counted = await count();
      if (counted) this.#counted = measure(counted.prompt, counted.assumed ? undefined : counted.limit);
    } catch (error) {
      if (!signal.aborted) log?.(`the gateway did not count the prompt (${said(error)}); the estimate is local`);
    } finally {
      clearTimeout(timer);
    }
    if (!signal.aborted) onSize(this.size);
  }

  #estimate(): PromptSize {
    const { model, estimate } = this.#options;
    this.#estimated ??= measure({ tokens: Math.round(estimate()), method: "estimated" }, inputLimit(model));
    return this.#estimated;
  }
}

/** Compare a count with the model's input limit, which is undefined where its window is not known. */
export function measure(count: PromptCount, limit: number | undefined): PromptSize {
  if (limit === undefined) return count;
  const level = count.tokens > limit ? "over" : count.tokens >= NEAR * limit ? "near" : undefined;
  return { ...count, limit, ...(level && { level }) };
}

/** A size in words: 12,345 tokens (hybrid, 12,300 to 12,400) of 136,000 (9%). */
export function describeSize({ tokens, method, low, high, limit }: PromptSize): string {
  const bounds =
    low === undefined || high === undefined || low === high ? "" : `, ${withCommas(low)} to ${withCommas(high)}`;
  const share = limit === undefined ? "" : ` of ${withCommas(limit)} (${Math.round((100 * tokens) / limit)}%)`;
  return `${withCommas(tokens)} tokens (${method}${bounds})${share}`;
}

export const withCommas = (number: number): string => number.toLocaleString("en");
