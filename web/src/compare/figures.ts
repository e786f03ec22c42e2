// The figures of two turns side by side, and by how much they differ. Pure.
import type { Row } from "../api/types.ts";
import { lookOf } from "../streams/states.ts";
import { formatCost, formatCount, formatDuration, formatRate, NOTHING } from "../ui/format.ts";
import { visibleText } from "../ui/visibleText.ts";

export interface Figure {
  name: string;
  first: string;
  second: string;
  /** "+12%", or "differs" for words; "" where both are the same or one is not known. */
  difference: string;
}

type Value = number | string | null;

const FIGURES: [name: string, value: (row: Row) => Value, format?: (value: number | null) => string][] = [
  ["Asked for", (row) => row.asked],
  ["Model", (row) => row.model],
  ["Provider", (row) => row.provider],
  ["Client's protocol", (row) => row.protocol],
  ["Provider's protocol", (row) => row.upstream],
  ["State", (row) => lookOf(row).label],
  ["Finish reason", (row) => row.finish],
  ["HTTP status", (row) => row.http || null, String],
  ["Fault", (row) => [row.fault, row.message].filter(Boolean).join(": ")],
  ["Time to first token", (row) => row.ttft, formatDuration],
  ["Duration", (row) => row.duration, formatDuration],
  ["Tokens per second", (row) => row.rate, formatRate],
  ["Input tokens", (row) => row.input, formatCount],
  ["Cached tokens", (row) => row.cached, formatCount],
  ["Output tokens", (row) => row.output, formatCount],
  ["Reasoning tokens", (row) => row.reasoning, formatCount],
  ["Cost", (row) => row.cost, formatCost],
];

export function compareFigures(first: Row, second: Row): Figure[] {
  const all = FIGURES.map(([name, value, format]): Figure => {
    const [one, two] = [value(first), value(second)];
    return { name, first: show(one, format), second: show(two, format), difference: differenceOf(one, two) };
  });
  return all.filter((figure) => figure.first !== NOTHING || figure.second !== NOTHING);
}

function show(value: Value, format?: (value: number | null) => string): string {
  if (value === null || value === "") return NOTHING;
  return format && typeof value === "number" ? format(value) : visibleText(String(value));
}

function differenceOf(one: Value, two: Value): string {
  if (one === two || one === null || two === null || one === "" || two === "") return "";
  if (typeof one !== "number" || typeof two !== "number" || one === 0) return "differs";
  const share = (two - one) / one;
  if (Math.abs(share) >= 10) return `×${(two / one).toFixed(0)}`;
  const percent = Math.round(share * 100);
  return percent === 0 ? "" : `${percent > 0 ? "+" : "−"}${Math.abs(percent)}%`;
}
