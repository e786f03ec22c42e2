// The daily budget as values: how much of it is spent, and the words for it.

/** The answer of /vscode/budget. */
export interface Budget {
  readonly day: string;
  /** Dollars; null or 0: there is no budget. */
  readonly limit?: number | null;
  readonly used: number;
  readonly lifted: boolean;
  /** False: the gateway keeps no journal, so it knows no costs. */
  readonly enforced: boolean;
}

export type BudgetLevel = "" | "near" | "over";

const NEAR = 0.8;
/** The code of a refusal. */
export const BUDGET_CODE = "daily_budget";

export function asBudget(value: unknown): Budget | undefined {
  const row = value as Partial<Budget> | null | undefined;
  return typeof row?.day === "string" && typeof row.used === "number" ? (row as Budget) : undefined;
}

export function budgetLevel({ limit, used, lifted }: Budget): BudgetLevel {
  if (!limit || lifted) return "";
  return used >= limit ? "over" : used >= NEAR * limit ? "near" : "";
}

/** `$5`, `$4.10`, `$0.0042`. */
export function dollars(amount: number): string {
  if (Number.isInteger(amount)) return `$${amount}`;
  return `$${amount >= 0.1 ? amount.toFixed(2) : String(Number(amount.toFixed(4)))}`;
}

/** For the status bar: empty where nothing needs to be seen. */
export function budgetText(budget: Budget | undefined): string {
  return budget && budgetLevel(budget) ? `${dollars(budget.used)} of ${dollars(budget.limit ?? 0)} today` : "";
}

export function describeBudget(budget: Budget | undefined): string {
  if (!budget?.limit) return "";
  const { limit, used, lifted, enforced } = budget;
  if (!enforced) return "The daily budget is not counted: the gateway keeps no journal.";
  const share = Math.round((100 * used) / limit);
  const rest = lifted ? " It is lifted for today." : budgetLevel(budget) === "over" ? " Requests are refused." : "";
  return `Today ${dollars(used)} of the budget of ${dollars(limit)} are spent (${share}%).${rest}`;
}

/** What a person is told once when a level is reached. */
export function budgetNotice(budget: Budget): string {
  const { limit, used } = budget;
  const share = Math.floor((100 * used) / (limit || 1) + 1e-9);
  return budgetLevel(budget) === "over"
    ? `Penstock: today's budget of ${dollars(limit ?? 0)} is used up (${dollars(used)} spent).`
    : `Penstock: ${share}% of today's budget of ${dollars(limit ?? 0)} is spent (${dollars(used)}).`;
}
