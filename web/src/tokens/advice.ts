// What somebody can do about the error of a model's estimates, in words with this model's numbers. Pure.

import { formatMany } from "../ui/format.ts";
import {
  errorOf,
  LEARNING_TURNS,
  lowOrHigh,
  MIN_SAMPLES,
  type ModelTokens,
  median,
  outliers,
  type Point,
  PROMISE,
  percent,
} from "./estimates.ts";
import { describeUncertain } from "./uncertain.ts";

export interface Advice {
  /** `act`: something can be done. `wait`: it gets better by itself. `fine`: nothing is wrong. */
  kind: "act" | "wait" | "fine";
  title: string;
  text: string;
  /** A turn to look at. */
  turn?: string;
}

const BIASED = 0.05; // a median error to one side that deserves a word
const LARGE = 0.1; // a median error that deserves a word
const [LOWEST_FACTOR, HIGHEST_FACTOR] = [0.5, 2];
const SMALL = 200; // tokens: in a shorter prompt, framing makes up most of the error
const ENOUGH = 5; // turns to compare two groups

export function advise(one: ModelTokens): Advice[] {
  const rules = [learning, biased, guessed, narrow, farOff, small, unrelated, exactText];
  const found = rules.flatMap((rule) => rule(one));
  return found.length > 0 ? found : [fine(one)];
}

function fine({ median_error, samples, coverage }: ModelTokens): Advice {
  const bounds = `${percent(coverage)} of the counts lay within the bounds`;
  const text = `Half of ${formatMany(samples, "estimate")} were off by less than ${percent(median_error, 1)}; ${bounds}.`;
  return { kind: "fine", title: "Nothing has to be done", text };
}

function learning({ taught, bias, samples }: ModelTokens): Advice[] {
  if (taught >= LEARNING_TURNS) return [];
  const progress = `${taught} of about ${LEARNING_TURNS} turns`;
  const off = Math.abs(bias) < 0.01 ? "Estimates are about right" : `Estimates are ${lowOrHigh(bias)}`;
  const title = `${off}: the factor is still learning (${progress})`;
  const text = `The median of ${formatMany(samples, "turn")}. Use the model: each turn that tells its usage teaches the factor, two a second at most, with requests up to 128 KB.`;
  return [{ kind: "wait", title, text }];
}

function biased(one: ModelTokens): Advice[] {
  const { bias, factor, taught, model } = one;
  if (taught < LEARNING_TURNS || Math.abs(bias) < BIASED) return [];
  const provider = model.split("/", 1)[0];
  const title = `Estimates are ${lowOrHigh(bias)} after ${formatMany(taught, "turn")}`;
  if (factor <= LOWEST_FACTOR * 1.01 || factor >= HIGHEST_FACTOR * 0.99) {
    const text = `The factor is at its limit, ×${factor.toFixed(2)}: the tables of the family “${one.family}” do not fit this model. In a program, count by length instead: HybridTokenEstimator(provider_overrides={"${provider}": 4.0}), with the characters of one token.`;
    return [{ kind: "act", title, text }];
  }
  const text = `One factor (×${factor.toFixed(2)}) cannot correct all of these requests, because they differ. Open a turn that is far off: its tokens, line by line, show which part the estimate gets wrong.`;
  return [{ kind: "act", title, text, ...worst(one) }];
}

function guessed({ uncertain, samples, points }: ModelTokens): Advice[] {
  const certain = points.filter((point) => point.uncertain === "").map((point) => Math.abs(errorOf(point)));
  return uncertain.flatMap(({ kind, turns, median_error }) => {
    const words = describeUncertain(kind);
    if (!words) return [];
    const others = certain.length > 0 ? `, against ${percent(median(certain), 1)} of requests without guesses` : "";
    const off = `Their median error is ${percent(median_error, 1)}${others}.`;
    const title = `${turns} of ${formatMany(samples, "request")} ${words.have}`;
    return [{ kind: "act" as const, title, text: `${words.why} ${off} ${words.help}` }];
  });
}

function narrow({ coverage, samples }: ModelTokens): Advice[] {
  if (samples < MIN_SAMPLES || coverage >= PROMISE - 0.05) return [];
  const title = `Only ${percent(coverage)} of ${formatMany(samples, "turn")} lay within the bounds, which promise ${percent(PROMISE)}`;
  const text =
    "Leave more room before a limit: plan with the upper bound (the header x-penstock-tokens-high, or HybridTokenEstimator(conservative=True)), and some percent on top.";
  return [{ kind: "act", title, text }];
}

function farOff(one: ModelTokens): Advice[] {
  const [first] = outliers(one.points);
  if (!first || Math.abs(errorOf(first)) < 0.5) return [];
  const far = one.points.filter((point) => Math.abs(errorOf(point)) >= 0.5).length;
  const title = `${formatMany(far, "turn")} ${far === 1 ? "is" : "are"} far off`;
  const text = `The farthest was estimated at ${number(first.estimate)} and counted at ${number(first.actual)}. One odd turn moves the factor by a few percent at most. Look at the turn to see what it is made of.`;
  return [{ kind: "act", title, text, ...(first.id && { turn: first.id }) }];
}

function small({ points, median_error }: ModelTokens): Advice[] {
  const errors = (wanted: (point: Point) => boolean) => points.filter(wanted).map((one) => Math.abs(errorOf(one)));
  const [short, long] = [errors(({ actual }) => actual < SMALL), errors(({ actual }) => actual >= SMALL)];
  if (median_error < BIASED || short.length < ENOUGH || long.length < ENOUGH) return [];
  if (median(short) < 2 * median(long)) return [];
  const title = `Short prompts make up the error: ${percent(median(short), 1)} below ${SMALL} tokens`;
  const text = `Longer prompts are off by ${percent(median(long), 1)}. A few tokens of framing are a large share of a short prompt, and do not matter for a limit.`;
  return [{ kind: "fine", title, text }];
}

function unrelated({ methods, samples }: ModelTokens): Advice[] {
  const known = methods.actual + methods.hybrid + methods.estimated;
  if (known < MIN_SAMPLES || samples < MIN_SAMPLES || methods.estimated < 0.9 * known) return [];
  const title = `${percent(methods.estimated / known)} of the counts are estimates from the first to the last token`;
  const text =
    "A conversation that continues is counted from what the provider said before, and is far more exact. Single questions cannot be. If these are conversations, the client changes what it sent before: a date in the system prompt, for example. Keep the beginning as it was.";
  return [{ kind: "act", title, text }];
}

function exactText({ exact_text, median_error, taught, samples }: ModelTokens): Advice[] {
  if (!exact_text || taught < LEARNING_TURNS || samples < MIN_SAMPLES || median_error < LARGE) return [];
  const title = `The error stays at ${percent(median_error, 1)}: this model's own tokenizer is available`;
  const text =
    "In a program, install penstock[bpe] and pass HybridTokenEstimator(counters=penstock.tokens.counters()). It counts plain text exactly, in 150 MB of memory. Framing and tools stay estimates.";
  return [{ kind: "act", title, text }];
}

function worst(one: ModelTokens): { turn?: string } {
  const id = outliers(one.points).find((point) => point.id)?.id;
  return id ? { turn: id } : {};
}

function number(value: number): string {
  return value.toLocaleString("en");
}
