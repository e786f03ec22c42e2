// What was used today, as a page: from the gateway's journal, of this window's key.

interface Row {
  readonly requests: number;
  readonly input: number;
  readonly output: number;
  readonly cost: number;
  /** Requests with tokens whose price is not known. */
  readonly unpriced?: number;
}

export interface Usage {
  readonly today?: Row;
  readonly models?: readonly (Row & { readonly model: string })[];
}

const number = (value: number) => value.toLocaleString("en");

/** Dollars; a sum that leaves something out says so. */
function dollars({ cost, unpriced, requests }: Row): string {
  if (unpriced && unpriced >= requests) return "unknown";
  return `${unpriced ? "at least " : ""}$${cost.toFixed(cost < 1 ? 4 : 2)}`;
}

export function usageReport({ today, models }: Usage): string {
  if (!today) return "# Penstock: today\n\nThe gateway keeps no journal, so it cannot tell what was used.\n";
  const rows = (models ?? []).map(
    (row) =>
      `| ${row.model || "none"} | ${number(row.requests)} | ${number(row.input)} | ${number(row.output)} | ${dollars(row)} |`,
  );
  return [
    "# Penstock: today",
    `${number(today.requests)} ${today.requests === 1 ? "request" : "requests"}, ${number(today.input + today.output)} tokens; spent: ${dollars(today)}.`,
    ["| model | requests | input tokens | output tokens | cost |", "|---|---:|---:|---:|---:|", ...rows].join("\n"),
    "",
  ].join("\n\n");
}
