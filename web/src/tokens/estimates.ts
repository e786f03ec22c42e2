// Estimates beside what providers counted, made ready to be drawn and to be said in words. Pure.
import { formatMany } from "../ui/format.ts";

export type Method = "actual" | "hybrid" | "estimated";
export const METHODS: readonly Method[] = ["actual", "hybrid", "estimated"];

/** One turn. `uncertain`: what in its request could only be guessed, separated by spaces. `id`: its request id. */
export interface Point {
  time: number;
  estimate: number;
  actual: number;
  low: number;
  high: number;
  method: Method | "";
  uncertain: string;
  id: string;
}

export interface UncertainTurns {
  kind: string;
  turns: number;
  median_error: number;
}

export interface ModelTokens {
  model: string;
  family: string;
  /** The extra `bpe` counts text for this model exactly. */
  exact_text: boolean;
  factor: number;
  samples: number;
  /** Turns that the factor was learned from. */
  taught: number;
  /** Shares, from 0 to 1. */
  coverage: number;
  median_error: number;
  /** The median of the signed error; below 0 the estimates are too low. */
  bias: number;
  methods: Record<Method, number>;
  uncertain: UncertainTurns[];
  history: { time: number; factor: number }[];
  points: Point[];
}

/** What the bounds promise: the actual count lies within them nine times in ten. */
export const PROMISE = 0.9;
export const MIN_SAMPLES = 20; // turns below which a share says little
/** After so many turns about 95% of a factor's change is done. */
export const LEARNING_TURNS = 12;
const WINDOW = 15; // turns of the rolling median

export function within({ low, actual, high }: Point): boolean {
  return low <= actual && actual <= high;
}

/** By which share an estimate is too high; below 0 it is too low. */
export function errorOf({ estimate, actual }: Point): number {
  return actual > 0 ? estimate / actual - 1 : 0;
}

/** The errors that the bounds allow: a point lies between them if its actual count lies within its bounds. */
export function allowedErrors({ estimate, low, high }: Point): [number, number] {
  return [estimate / Math.max(1, high) - 1, estimate / Math.max(1, low) - 1];
}

export function median(values: readonly number[]): number {
  const order = [...values].sort((a, b) => a - b);
  const middle = order.length >> 1;
  const upper = order[middle] ?? 0;
  return order.length % 2 ? upper : ((order[middle - 1] ?? 0) + upper) / 2;
}

/** The median of each value and those before it, at most `window` of them; null where there are too few. */
export function rollingMedian(values: readonly number[], window = WINDOW): (number | null)[] {
  const few = Math.min(window, 3);
  return values.map((_, n) => (n + 1 < few ? null : median(values.slice(Math.max(0, n - window + 1), n + 1))));
}

/** Those outside their bounds, the farthest off first. Twice as much and half as much are equally far. */
export function outliers(points: readonly Point[]): Point[] {
  const far = ({ estimate, actual }: Point) => Math.abs(Math.log(Math.max(1, estimate) / Math.max(1, actual)));
  return points.filter((point) => !within(point)).sort((a, b) => far(b) - far(a));
}

/** The method of a turn; turns of older versions have none, and were all estimated. */
export function methodOf({ method }: Point): Method {
  return method || "estimated";
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
  return value === 0 ? "0%" : `${value > 0 ? "+" : "−"}${Math.abs(value).toLocaleString("en")}%`;
}

/** "18% low", "4% high". */
export function lowOrHigh(share: number): string {
  return `${percent(Math.abs(share), Math.abs(share) < 0.095 ? 1 : 0)} ${share < 0 ? "low" : "high"}`;
}

/** What the figures mean, for somebody who has never seen them. */
export function describeAccuracy(one: ModelTokens): string[] {
  const turns = one.samples === 1 ? "One request was" : formatMany(one.samples, "request was", "requests were");
  const said = [`${turns} estimated and then counted by the provider.`];
  const off = percent(one.median_error, 1);
  said.push(
    one.samples === 1 ? `The estimate was off by ${off}.` : `Half of the estimates were off by less than ${off}.`,
  );
  said.push(describeCoverage(one));
  said.push(describeFactor(one));
  return said;
}

function describeCoverage({ coverage, samples }: ModelTokens): string {
  const share = `${percent(coverage)} of the actual counts lay within the bounds`;
  if (samples < MIN_SAMPLES) return `${share}; with so few requests that says little yet.`;
  return `${share}, which promise ${percent(PROMISE)}: ${coverage >= PROMISE - 0.02 ? "they hold." : "they are too narrow for this model."}`;
}

function describeFactor({ factor, taught }: ModelTokens): string {
  const off = factor - 1;
  if (taught === 0) return "No turn has taught a correction factor yet.";
  if (taught < LEARNING_TURNS) return `Estimates are multiplied by ${factor.toFixed(3)} so far.`;
  if (Math.abs(off) < 0.005) return "The tables fit this model: nothing is corrected.";
  return `This provider counts ${percent(Math.abs(off), 1)} ${off > 0 ? "more" : "fewer"} tokens than the tables say, so estimates are multiplied by ${factor.toFixed(3)}.`;
}

// ── the axis of errors ──

const NEAR = 0.6; // errors up to here fit on a linear axis
const STEPS = [0.1, 0.2, 0.5, 1, 3, 10, 30, 100, 1000];
const LOWEST = [-0.9, -0.5, -0.2, -0.1];

export interface ErrorAxis {
  range: [number, number];
  /** Where the lines are; absent: the axis is linear and finds them itself. */
  splits?: number[];
}

/** An axis that holds every error. With errors far off it is not linear: those near zero keep their room. */
export function errorAxis(points: readonly Point[]): ErrorAxis {
  const values = points.map(errorOf);
  const bounds = points.flatMap(allowedErrors).map((value) => Math.min(Math.max(value, -NEAR), NEAR));
  const all = [...values, ...bounds];
  const low = all.reduce((least, value) => Math.min(least, value), -0.1);
  const high = all.reduce((most, value) => Math.max(most, value), 0.1);
  const range: [number, number] = [low * 1.1, high * 1.1];
  if (low >= -NEAR && high <= NEAR) return { range };
  const splits = [...LOWEST, 0, ...STEPS].filter((split) => split >= range[0] && split <= range[1]);
  return { range, splits };
}
