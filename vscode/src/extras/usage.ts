// What was used, by model and day, as values: from the gateway's journal, of this window's key. Unknown is never zero.

export interface UsageRow {
  readonly requests: number;
  readonly input: number;
  readonly output: number;
  /** Part of `input`. Missing from older gateways. */
  readonly cached?: number;
  readonly cost: number;
  /** Requests with tokens whose price is not known. */
  readonly unpriced?: number;
}

export interface ModelUsage extends UsageRow {
  /** Empty: requests that reached no model. */
  readonly model: string;
}

export interface DayUsage {
  readonly day: string;
  readonly models: readonly ModelUsage[];
}

export interface Usage {
  readonly today?: UsageRow;
  readonly models?: readonly ModelUsage[];
  readonly days?: readonly DayUsage[];
}

export const NO_JOURNAL = "The gateway keeps no journal, so it cannot tell what was used.";
export const NO_MODEL = "not answered";
const NONE = "–";

export const withCommas = (value: number): string => Math.round(value).toLocaleString("en");

export const tokensOf = ({ input, output }: UsageRow): number => input + output;

/** Dollars; a sum that leaves something out says so, and what is not known is not zero. */
export function costText(row: UsageRow): string {
  const { cost, unpriced = 0 } = row;
  if (!tokensOf(row)) return NONE;
  if (unpriced && !cost) return "unknown";
  return `${unpriced ? "at least " : ""}${dollars(cost)}`;
}

/** Two digits, or the first two that are not zero. */
export function dollars(cost: number): string {
  if (cost === 0) return "$0";
  const digits = cost >= 0.1 ? 2 : Math.min(6, 1 - Math.floor(Math.log10(cost)));
  return `$${cost.toFixed(digits)}`;
}

/** Which share of the prompts came from the provider's cache. */
export function cachedText({ input, cached }: UsageRow): string {
  return input && cached !== undefined ? `${Math.round((100 * cached) / input)}%` : NONE;
}

export const tokensText = (row: UsageRow): string => (tokensOf(row) ? withCommas(tokensOf(row)) : NONE);

export function sumOf(rows: readonly UsageRow[]): UsageRow {
  const sum = (value: (row: UsageRow) => number) => rows.reduce((total, row) => total + value(row), 0);
  return {
    requests: sum(({ requests }) => requests),
    input: sum(({ input }) => input),
    output: sum(({ output }) => output),
    cached: sum(({ cached = 0 }) => cached),
    cost: sum(({ cost }) => cost),
    unpriced: sum(({ unpriced = 0 }) => unpriced),
  };
}

/** One row for each model, those with the most tokens first. */
export function byModel(days: readonly DayUsage[]): ModelUsage[] {
  const rows = Map.groupBy(
    days.flatMap(({ models }) => models),
    ({ model }) => model,
  );
  return [...rows]
    .map(([model, some]) => ({ model, ...sumOf(some) }))
    .sort((a, b) => tokensOf(b) - tokensOf(a) || b.requests - a.requests);
}

/** The days of an answer; from an older gateway only today. */
export function daysOf({ days, models }: Usage, today: string): readonly DayUsage[] {
  return days ?? (models ? [{ day: today, models }] : []);
}

/** Today in one text, for those who cannot see the view. */
export function usageSummary({ today, models = [] }: Usage): string {
  if (!today) return NO_JOURNAL;
  const requests = `${withCommas(today.requests)} ${today.requests === 1 ? "request" : "requests"}`;
  const rows = models.map((row) => `${row.model || NO_MODEL}: ${tokensText(row)} tokens, ${costText(row)}`);
  return [`Today: ${requests}, ${tokensText(today)} tokens; cost: ${costText(today)}.`, ...rows].join("\n");
}
