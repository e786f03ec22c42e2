// The tokens of a prompt, part by part: what is drawn, and what is said. Pure.
import type { Breakdown, BreakdownKind, BreakdownLine } from "../api/types.ts";

export interface KindSum {
  kind: BreakdownKind;
  label: string;
  tokens: number;
  share: number;
}

/** In the order of the bar; the numbers are those of the theme's series. */
export const KINDS: readonly { kind: BreakdownKind; label: string; colour: number }[] = [
  { kind: "system", label: "System prompt", colour: 3 },
  { kind: "tools", label: "Tools", colour: 2 },
  { kind: "message", label: "Messages", colour: 1 },
  { kind: "images", label: "Images and files", colour: 5 },
  { kind: "framing", label: "Framing", colour: 8 },
  { kind: "hidden", label: "Hidden additions", colour: 7 },
];

/** The sums of all kinds that occur. */
export function sumKinds(lines: readonly BreakdownLine[]): KindSum[] {
  return KINDS.map(({ kind, label }) => {
    const own = lines.filter((line) => line.kind === kind);
    const sum = (name: "tokens" | "share") => own.reduce((all, line) => all + line[name], 0);
    return { kind, label, tokens: sum("tokens"), share: sum("share") };
  }).filter(({ tokens }) => tokens > 0);
}

export function colourOf(kind: string): number {
  return KINDS.find((known) => known.kind === kind)?.colour ?? 8;
}

/** 0.4% is not nothing. */
export function formatShare(share: number): string {
  const percent = share * 100;
  if (percent > 0 && percent < 1) return "<1%";
  return `${Math.round(percent)}%`;
}

export function describeBounds({ low, high, method }: Pick<BreakdownLine, "low" | "high" | "method">): string {
  if (low === high) return method;
  return `${low.toLocaleString("en")} to ${high.toLocaleString("en")}, ${method}`;
}

/** What the total is, and how it compares to the provider's count. */
export function describeTotal({ tokens, low, high, method, actual }: Breakdown): string[] {
  const words = [method === "estimated" && actual ? OWN_COUNT : (METHODS[method] ?? "")];
  if (low !== high) words.push(`Nine times in ten it is between ${number(low)} and ${number(high)}.`);
  if (actual !== null && actual > 0 && actual !== tokens) {
    const off = tokens / actual - 1;
    const percent = Math.abs(off * 100);
    const share = `${percent < 9.5 ? percent.toFixed(1) : Math.round(percent)}%`;
    words.push(`The provider counted ${number(actual)}: the estimate is ${share} ${off < 0 ? "low" : "high"}.`);
  }
  return words.filter(Boolean);
}

// The provider's count is of more than the request shows, such as earlier messages that are stored at the provider.
const OWN_COUNT = "It is estimated from what the request shows.";

const METHODS: Record<string, string> = {
  actual: "The provider counted this prompt. How it divides into parts is estimated.",
  hybrid: "The provider counted the beginning of this prompt before. The rest is estimated.",
  estimated: "Nothing of this prompt was counted before: all of it is estimated.",
};

function number(value: number): string {
  return value.toLocaleString("en");
}

/** What a line is called: a message by its place and role. */
export function lineName({ what, kind, message }: BreakdownLine): string {
  if (kind === "system") return "System prompt";
  return message === undefined ? what.charAt(0).toUpperCase() + what.slice(1) : `${message + 1}. ${what}`;
}
