// What the journal counted, made ready to be drawn: the largest series and the rest together, sums, stacks. Pure.

/** One model, client or key; every list has a place for each bucket. Null is unknown. */
export interface Series {
  name: string;
  requests: number[];
  input: number[];
  output: number[];
  cost: number[];
  faults: number[];
  ttft: (number | null)[];
  p95: (number | null)[];
  duration: (number | null)[];
  total: Total;
}

export interface Total {
  requests: number;
  input: number;
  output: number;
  cost: number;
  faults: number;
  ttft: number | null;
  p95: number | null;
  duration: number | null;
}

export interface Usage {
  bucket: number;
  buckets: number[];
  series: Series[];
  total: Total;
}

export type Counted = "requests" | "input" | "output" | "cost" | "faults";
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

const MOST = 8; // as many as there are colours
export const REST = "all others";

/** The largest by tokens, at most as many as there are colours; what is left is one series. */
export function largest(series: readonly Series[]): Series[] {
  const order = [...series].sort((a, b) => weight(b) - weight(a) || a.name.localeCompare(b.name));
  if (order.length <= MOST) return order;
  return [...order.slice(0, MOST - 1), together(order.slice(MOST - 1))];
}

function weight({ total }: Series): number {
  return total.input + total.output + total.requests;
}

function together(series: Series[]): Series {
  const sum = (name: Counted) => {
    const places = series[0]?.[name].length ?? 0;
    return Array.from({ length: places }, (_, place) => series.reduce((all, one) => all + (one[name][place] ?? 0), 0));
  };
  const lists = { requests: sum("requests"), input: sum("input"), output: sum("output") };
  const unknown = lists.requests.map(() => null); // a median of medians is none
  const whole = totalOf(series);
  return {
    name: REST,
    ...lists,
    cost: sum("cost"),
    faults: sum("faults"),
    ttft: unknown,
    p95: unknown,
    duration: unknown,
    total: whole,
  };
}

function totalOf(series: Series[]): Total {
  const sum = (name: Counted) => series.reduce((all, one) => all + one.total[name], 0);
  const counted = { requests: sum("requests"), input: sum("input"), output: sum("output"), cost: sum("cost") };
  return { ...counted, faults: sum("faults"), ttft: null, p95: null, duration: null };
}

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
  cost: number;
  faults: number;
}

/** The sums of each bucket in which anything happened, the newest first. */
export function slots({ buckets, series }: Usage): Slot[] {
  const sum = (name: Counted, place: number) => series.reduce((all, one) => all + (one[name][place] ?? 0), 0);
  const made = buckets.map((time, place) => ({
    time,
    requests: sum("requests", place),
    input: sum("input", place),
    output: sum("output", place),
    cost: sum("cost", place),
    faults: sum("faults", place),
  }));
  return made.filter(({ requests }) => requests > 0).reverse();
}

/** Where the buckets begin and end, so that a range ends on one. */
export function asked(range: Range, by: By, now: number): string {
  const until = Math.ceil(now / range.bucket) * range.bucket;
  const since = until - range.seconds;
  return `/inspector/usage?by=${by}&since=${since}&until=${until}&bucket=${range.bucket}`;
}
