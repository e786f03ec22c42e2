// What the journal counted, as the gateway groups it, made ready to be drawn: sums, stacks, links. Pure.
import { formatRoute } from "../router.ts";

/** Sums and medians. Null is unknown. */
export interface Total {
  requests: number;
  input: number;
  output: number;
  cost: number | null;
  /** Requests with tokens whose price is not known. */
  unpriced: number;
  /** Faults and refusals. */
  errors: number;
  faults: number;
  refused: number;
  cancelled: number;
  ttft: number | null;
  p95: number | null;
  duration: number | null;
}

/** One model, client or key. `query` finds its requests in the list; "" if no query can. */
export interface Named {
  name: string;
  query: string;
  total: Total;
}

/** What is drawn of one name; every list has a place for each bucket. */
export interface Series extends Named {
  requests: number[];
  input: number[];
  output: number[];
  cost: (number | null)[];
  errors: number[];
  ttft: (number | null)[];
}

export interface Usage {
  bucket: number;
  buckets: number[];
  /** The query for the time. */
  period: string;
  series: Series[];
  /** All names; the largest by requests first. */
  names: Named[];
  total: Total;
  /** There are more requests than are counted. */
  partial: boolean;
}

export type Counted = "requests" | "input" | "output" | "errors";
export const RANGES = [
  { id: "hour", label: "Hour", seconds: 3600, bucket: 120 },
  { id: "day", label: "Day", seconds: 86_400, bucket: 3600 },
  { id: "week", label: "Week", seconds: 7 * 86_400, bucket: 6 * 3600 },
  { id: "month", label: "Month", seconds: 30 * 86_400, bucket: 86_400 },
] as const;
export type Range = (typeof RANGES)[number];
export const BYS = [
  { id: "model", label: "Model" },
  { id: "client", label: "Client" },
  { id: "key", label: "Key" },
] as const;
export type By = (typeof BYS)[number]["id"];

export function tokensOf(series: Series): number[] {
  return series.input.map((value, place) => value + (series.output[place] ?? 0));
}

/** Each list upon those before it: the last is the sum of all. */
export function stacked(lists: readonly (readonly number[])[]): number[][] {
  const made: number[][] = [];
  for (const list of lists) {
    const below = made.at(-1);
    made.push(list.map((value, place) => value + (below?.[place] ?? 0)));
  }
  return made;
}

export interface Slot {
  time: number;
  requests: number;
  input: number;
  output: number;
  cost: number | null;
  errors: number;
}

/** The sums of each bucket in which anything happened, the newest first. */
export function slots({ buckets, series }: Usage): Slot[] {
  const sum = (name: Counted, place: number) => series.reduce((all, one) => all + (one[name][place] ?? 0), 0);
  const made = buckets.map((time, place) => ({
    time,
    requests: sum("requests", place),
    input: sum("input", place),
    output: sum("output", place),
    cost: sumKnown(series.map(({ cost }) => cost[place] ?? null)),
    errors: sum("errors", place),
  }));
  return made.filter(({ requests }) => requests > 0).reverse();
}

/** The sum of what is known; null if nothing is. */
function sumKnown(values: (number | null)[]): number | null {
  const known = values.filter((value) => value !== null);
  return known.length ? known.reduce((all, value) => all + value, 0) : null;
}

/** The address of the list with the requests behind a figure. */
export function listAddress(...terms: string[]): string {
  return formatRoute("streams", "", { q: terms.filter(Boolean).join(" ") });
}

/** The query for a slice of time. */
export function slicePeriod(time: number, seconds: number): string {
  const format = (moment: number) => new Date(moment * 1000).toISOString().replace(/\.\d+Z$/, "Z");
  return `since:${format(time)} until:${format(time + seconds)}`;
}

/** Where the buckets begin and end, so that a range ends on one. */
export function asked(range: Range, by: By, now: number): string {
  const until = Math.ceil(now / range.bucket) * range.bucket;
  const since = until - range.seconds;
  return `/inspector/usage?by=${by}&since=${since}&until=${until}&bucket=${range.bucket}`;
}
