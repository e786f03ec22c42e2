// Estimates beside what providers counted, made ready to be drawn and to be said in words. Pure.

export interface Point {
  time: number;
  estimate: number;
  actual: number;
  low: number;
  high: number;
}

export interface ModelTokens {
  model: string;
  factor: number;
  samples: number;
  /** Shares, from 0 to 1. */
  coverage: number;
  median_error: number;
  history: { time: number; factor: number }[];
  points: Point[];
}

/** What the bounds promise: the actual count lies within them nine times in ten. */
export const PROMISE = 0.9;
const FEW = 20; // turns below which a share says little

export function within({ low, actual, high }: Point): boolean {
  return low <= actual && actual <= high;
}

/** How far the actual count was from its estimate: +0.1 is ten percent more. */
export function offBy(value: number, estimate: number): number {
  return estimate > 0 ? value / estimate - 1 : 0;
}

export function bySize(points: readonly Point[]): Point[] {
  return [...points].sort((a, b) => a.actual - b.actual || a.estimate - b.estimate);
}

/** Steps of an axis of turns: there is no half of one. */
export const WHOLE = [1, 2, 5, 10, 20, 50, 100, 200, 500];

export function percent(share: number, digits = 0): string {
  return `${(share * 100).toFixed(digits)}%`;
}

export function signed(share: number): string {
  const value = Math.round(share * 100);
  return value === 0 ? "0%" : `${value > 0 ? "+" : "−"}${Math.abs(value)}%`;
}

/** What the figures mean, for somebody who has never seen them. */
export function inWords(one: ModelTokens): string[] {
  const turns = one.samples === 1 ? "One request was" : `${one.samples.toLocaleString("en")} requests were`;
  const said = [`${turns} estimated and then counted by the provider.`];
  const off = percent(one.median_error, 1);
  said.push(
    one.samples === 1 ? `The estimate was off by ${off}.` : `Half of the estimates were off by less than ${off}.`,
  );
  said.push(coverageWords(one));
  said.push(factorWords(one.factor));
  return said;
}

function coverageWords({ coverage, samples }: ModelTokens): string {
  const share = `${percent(coverage)} of the actual counts lay within the bounds`;
  if (samples < FEW) return `${share}; with so few requests that says little yet.`;
  return `${share}, which promise ${percent(PROMISE)}: ${coverage >= PROMISE - 0.02 ? "they hold." : "they are too narrow for this model."}`;
}

function factorWords(factor: number): string {
  const off = factor - 1;
  if (Math.abs(off) < 0.005) return "The tables fit this model: nothing is corrected.";
  return `This provider counts ${percent(Math.abs(off), 1)} ${off > 0 ? "more" : "fewer"} tokens than the tables say, so estimates are multiplied by ${factor.toFixed(3)}.`;
}

/** Limits of an axis of shares: all points, unless a few lie absurdly far out. */
export function shareRange(points: readonly Point[]): [number, number] {
  const values = points.flatMap((point) =>
    [point.low, point.high, point.actual].map((value) => offBy(value, point.estimate)),
  );
  const low = Math.max(-1, Math.min(-0.1, ...values.slice(-3000)));
  const high = Math.min(3, Math.max(0.1, ...values.slice(-3000)));
  return [low * 1.1, high * 1.1];
}
