// Sessions as the gateway tells them, and what the page computes from them: bars, totals, words. Pure.
import type { Row } from "../api/types.ts";
import { formatCount, formatDuration, formatManyShort } from "../ui/format.ts";
import { visibleText } from "../ui/visibleText.ts";

export interface Session {
  id: string;
  client: string;
  key: string;
  title: string;
  models: string[];
  began: number;
  ended: number;
  running: boolean;
  turns: number;
  faults: number;
  /** null: not one is known. */
  input: number | null;
  output: number | null;
  cached: number | null;
  cost: number | null;
  /** Finished turns whose cost is not known. */
  unpriced: number;
  /** Finished turns whose tokens are not known. */
  uncounted: number;
  stalls: number;
  loops: number;
  forked_from: string;
}

export interface Call {
  name: string;
  preview: string;
  /** null: no result is known. */
  failed: boolean | null;
}

export interface Gap {
  seconds: number;
  kind: "tools" | "user" | "client";
  calls: Call[];
}

export type Link = "start" | "continue" | "retry" | "edit" | "compact" | "fork";

export interface Step {
  row: Row;
  link: Link;
  previous: string;
  messages: number;
  added: number;
  gap: Gap | null;
  calls: Call[];
  silence: number;
  silent_from: number;
  window: number;
}

export interface Finding {
  kind: "stall" | "loop";
  where: "turn" | "gap" | "stream" | "calls";
  turn: string;
  turns: string[];
  words: string;
}

export interface Report {
  session: Session;
  steps: Step[];
  findings: Finding[];
}

/** What a link is called on the page; nothing for the usual. */
export const LINK_WORDS: Record<Link, string> = {
  start: "",
  continue: "",
  retry: "sent again",
  edit: "earlier messages changed",
  compact: "context compacted",
  fork: "branched off",
};

/** Names of tools, each once, with how often: "bash ×2, edit". */
export function toolNames(calls: Call[]): string {
  const counts = new Map<string, number>();
  for (const { name } of calls) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts]
    .map(([name, count]) => [visibleText(name), count] as const)
    .map(([name, count]) => (count > 1 ? `${name} ×${count}` : name))
    .join(", ");
}

/** What happened between two turns. */
export function describeGap(gap: Gap): string {
  const took = formatDuration(gap.seconds);
  if (gap.kind === "user") return `waiting for the user, ${took}`;
  if (gap.kind === "client") return `waiting for the client, ${took}`;
  const names = toolNames(gap.calls) || "tools";
  return gap.calls.length > 1 ? `running ${names}, ${took} together` : `running ${names}, ${took}`;
}

/** A sum; a lower bound if some of its amounts are not known. */
export function atLeast(words: string, known: boolean, unknown: number): string {
  return known && unknown > 0 ? `≥ ${words}` : words;
}

/** The parts of a turn in seconds: until the first token, and from then on. */
export function turnParts(row: Row, now: number): { waiting: number; streaming: number } {
  const whole = row.duration ?? Math.max(0, now - row.time);
  const waiting = Math.min(row.ttft ?? whole, whole);
  return { waiting, streaming: whole - waiting };
}

/** How many seconds the width of a bar stands for. One that is far longer than the others is cut off there. */
export function barScale(report: Report, now: number): number {
  const lengths = report.steps.flatMap(({ row, gap }) => {
    const { waiting, streaming } = turnParts(row, now);
    return gap && gap.kind !== "user" ? [waiting + streaming, gap.seconds] : [waiting + streaming];
  });
  lengths.sort((a, b) => a - b);
  const usual = lengths[Math.floor(lengths.length * 0.9)] ?? 0;
  return Math.max(Math.min(lengths.at(-1) ?? 0, usual * 3), 0.001);
}

export interface Total {
  /** null: not one is known so far. */
  cost: number | null;
  /** Finished turns so far whose cost is not known. */
  unpriced: number;
}

/** The cost up to each turn. */
export function runningTotals(steps: Step[]): Total[] {
  const totals: Total[] = [];
  let sum: Total = { cost: null, unpriced: 0 };
  for (const { row } of steps) {
    sum =
      row.cost === null
        ? { ...sum, unpriced: sum.unpriced + (row.duration === null ? 0 : 1) }
        : { ...sum, cost: (sum.cost ?? 0) + row.cost };
    totals.push(sum);
  }
  return totals;
}

export function share(part: number | null, whole: number | null): string {
  if (part === null || !whole) return "–";
  const percent = (part / whole) * 100;
  return percent > 0 && percent < 1 ? "<1%" : `${Math.round(percent)}%`;
}

/** How full the context is, in words. */
export function describeContext(steps: Step[]): string {
  const counted = steps.filter(({ row }) => row.input !== null);
  const last = counted.at(-1);
  if (!last) return "No provider has told how long the prompts are.";
  const largest = Math.max(...counted.map(({ row }) => row.input ?? 0));
  const first = counted[0]?.row.input ?? 0;
  const grown = `From ${formatCount(first)} to ${formatManyShort(last.row.input, "token")}, ${formatCount(largest)} at most.`;
  if (!last.window) return `${grown} The model's window is not known.`;
  return `${grown} That is ${share(largest, last.window)} of the model's window of ${formatCount(last.window)}.`;
}

export interface Segment {
  kind: "waiting" | "streaming" | "tools" | "client" | "user";
  start: number;
  seconds: number;
  turn: string;
}

const LONGEST_PAUSE = 0.15; // of the whole: the user's pauses are not what one looks for

/** The whole session on one line, from 0 to 1. Long pauses of the user are shortened. */
export function overview(report: Report, now: number): Segment[] {
  const found: Segment[] = [];
  for (const { row, gap } of report.steps) {
    if (gap && gap.seconds > 0) {
      found.push({ kind: gap.kind, start: 0, seconds: gap.seconds, turn: row.id });
    }
    const { waiting, streaming } = turnParts(row, now);
    found.push({ kind: "waiting", start: 0, seconds: waiting, turn: row.id });
    found.push({ kind: "streaming", start: 0, seconds: streaming, turn: row.id });
  }
  const busy = found.reduce((sum, { kind, seconds }) => sum + (kind === "user" ? 0 : seconds), 0);
  const shown = found.map((one) =>
    one.kind === "user" ? { ...one, seconds: Math.min(one.seconds, Math.max(busy, 1) * LONGEST_PAUSE) } : one,
  );
  const whole = shown.reduce((sum, { seconds }) => sum + seconds, 0) || 1;
  let at = 0;
  return shown.map((one) => {
    const placed = { ...one, start: at / whole, seconds: one.seconds / whole };
    at += one.seconds;
    return placed;
  });
}
