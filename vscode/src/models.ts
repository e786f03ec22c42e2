// The gateway's models → what the host lists: which of them are shown, under which id and name, and the utility alias.
// Three fields are never set, because a host refuses the whole list for them; a test holds that.

import type * as vscode from "vscode";
import type { Model } from "./wire.ts";

/** The fields of the API that are passed on without a proposal, beside the typed ones. */
export interface Information extends vscode.LanguageModelChatInformation {
  readonly isBYOK: true;
  readonly isUserSelectable: true;
  readonly maxContextWindowTokens?: number;
  readonly category?: { readonly label: string; readonly order: number };
  readonly statusIcon?: vscode.ThemeIcon;
  readonly pricing?: string;
  readonly configurationSchema?: object;
}

export interface Choice {
  /** Patterns with * of the ids to show; none: a few. */
  readonly show: readonly string[];
  /** How many are shown of a long list, unless the user chose. */
  readonly few: number;
  /** The id behind the utility alias; empty: the cheapest. */
  readonly utility: string;
  /** Ids that another setting names: they are listed, or the host could not be asked for them. */
  readonly named?: readonly string[];
  /** Show the packaged models, too. */
  readonly replay?: boolean;
}

export interface Listed {
  readonly information: Information;
  readonly model: Model;
  /** Titles and commit messages: the least thinking. */
  readonly utility?: boolean;
}

export const UTILITY = "utility";
const REPLAY = "replay";
export const FEW = 24;
const VERSION = "1";
const ASSUMED = "assumed"; // an older gateway says only in the tooltip that it does not know a window
const CHEAP_ENOUGH = 16_000; // tokens that a title's prompt, or a commit's, may take
const THINKING = 3; // how much dearer a model is that thinks even when told not to

// How the host picks an edit tool by a model's name, and which families can use it. A name of another family that has the
// word in it gets an invisible joiner there: it reads the same and promises nothing.
const PROMISES: readonly { readonly word: RegExp; readonly kept: RegExp }[] = [
  { word: /g(?=pt)/gi, kept: /^(gpt-(4\.1|[5-9]|\d\d)|o[3-9]|codex)/ },
  { word: /o(?=penai)/gi, kept: /^(gpt-(4\.1|[5-9]|\d\d)|o[3-9]|codex)/ },
  { word: /s(?=onnet)/gi, kept: /^claude/ },
];
const JOINER = "\u2060";

export function honestName(name: string, family: string): string {
  return PROMISES.reduce(
    (said, { word, kept }) => (kept.test(family) ? said : said.replace(word, `$&${JOINER}`)),
    name,
  );
}

/** Packaged answers, which are listed without being configured; an alias to one is configured. */
export const isReplay = ({ id, played }: Model): boolean => played === true && id.startsWith(`${REPLAY}/`);

/** `suffix` tells the models of one gateway from those of another. */
export function listed(models: readonly Model[], choice: Choice, suffix = ""): Listed[] {
  const unique = [...new Map(models.map((model) => [model.id, model] as const).reverse()).values()].reverse();
  const shown = new Set(chosen(unique, choice));
  const wanted = unique.filter((model) => shown.has(model) || choice.named?.includes(model.id));
  const rows: Listed[] = wanted.map((model) => ({ model, information: information(model, suffix) }));
  const real = unique.filter((model) => choice.replay || !isReplay(model) || model.id === choice.utility);
  const cheap = utilityOf(real, choice.utility);
  return cheap && !unique.some(({ id }) => id === UTILITY) ? [...rows, alias(cheap, suffix)] : rows;
}

function information(model: Model, suffix: string): Information {
  const { id, name, family, version, maxInputTokens, maxOutputTokens, capabilities, detail } = model;
  const { maxContextWindowTokens, category, pricing, configurationSchema } = model;
  const tooltip = tooltipOf(model);
  return {
    id: id + suffix,
    name: honestName(name, family),
    family,
    version: version || VERSION,
    maxInputTokens,
    maxOutputTokens,
    capabilities: { imageInput: capabilities.imageInput === true, toolCalling: capabilities.toolCalling ?? false },
    isBYOK: true,
    isUserSelectable: true,
    ...(detail && { detail }),
    ...(tooltip && { tooltip }),
    ...(maxContextWindowTokens && { maxContextWindowTokens }),
    ...(category && { category }),
    ...(pricing && { pricing }),
    ...(configurationSchema && { configurationSchema }),
  };
}

/** The gateway's tooltip, which says that a window is assumed; where it does not, that is added. */
function tooltipOf(model: Model): string {
  const { tooltip = "", assumed } = model;
  if (!assumed || tooltip.includes(ASSUMED)) return tooltip;
  const added = `The context window is not known: ${assumedWindow(model).toLocaleString("en")} tokens are assumed.`;
  return [tooltip, added].filter(Boolean).join(". ");
}

/** All that the host is told of a list. Learned factors change with nearly every reply, and are not part of it. */
export function fingerprint(models: readonly Model[]): string {
  return JSON.stringify(models.map(({ counting: _, ...told }) => told));
}

/** The window that is assumed where none is known: prompt and answer together. */
export const assumedWindow = ({ maxInputTokens, maxOutputTokens }: Model): number =>
  maxInputTokens + (maxOutputTokens || 0);

/** The longest prompt that a model takes; undefined where its window is not known and the number in the list is assumed. */
export function inputLimit({ maxInputTokens, tooltip, assumed }: Model): number | undefined {
  return assumed || tooltip?.includes(ASSUMED) ? undefined : maxInputTokens;
}

/** What tells the models of a further gateway from ours: where it is. */
export function suffixOf(url: string): string {
  const { host, pathname } = new URL(url);
  return `@${host}${pathname.replace(/(?<!\/)\/+$/, "")}`;
}

/** The thinking that a model offers, the least first. */
export function effortsOf({ configurationSchema }: Model): readonly unknown[] {
  const { properties } = (configurationSchema ?? {}) as { properties?: { reasoningEffort?: { enum?: unknown[] } } };
  return properties?.reasoningEffort?.enum ?? [];
}

function alias(model: Model, suffix: string): Listed {
  const thinks = ["none", undefined].includes(effortsOf(model)[0] as string | undefined) ? "without" : "with little";
  const { configurationSchema: _, ...rest } = information(model, suffix);
  const information_: Information = {
    ...rest,
    id: UTILITY + suffix,
    name: "Utility (Penstock)",
    detail: model.name,
    tooltip: `For titles, summaries and commit messages: ${model.id}, ${thinks} thinking.`,
  };
  return { information: information_, model, utility: true };
}

/**
 * What the user chose; else all of a short list, and of a long one a few of each provider: the newest and most able first.
 * Packaged models are listed only if they are asked for, by the setting or by a pattern of their own.
 */
export function chosen(all: readonly Model[], { show, few, replay }: Choice): readonly Model[] {
  const asked = (model: Model) => replay || !isReplay(model) || show.some((pattern) => pattern.startsWith(REPLAY));
  const models = all.filter(asked);
  if (show.length) return models.filter(({ id }) => show.some((pattern) => matches(pattern, id)));
  if (models.length <= few) return models;
  // An alias was configured, so it is meant to be seen.
  const picked = new Set(models.filter(({ id }) => !id.includes("/")).slice(0, few));
  const real = models.filter(({ played }) => !played);
  const byProvider = Map.groupBy(real.length ? real : models, ({ id, detail }) => detail ?? id.split("/")[0] ?? "");
  const queues = [...byProvider.values()].map(ranked);
  for (let round = 0; picked.size < few && queues.some((queue) => queue[round]); round++) {
    for (const queue of queues) if (queue[round] && picked.size < few) picked.add(queue[round] as Model);
  }
  return models.filter((model) => picked.has(model));
}

/** The newest of each line of models (claude-opus, gpt-mini …) before any second newest, and the most able first. */
function ranked(models: readonly Model[]): Model[] {
  const lines = [...Map.groupBy(models, ({ family }) => lineOf(family)).values()];
  const age = new Map(
    lines.flatMap((line) =>
      line.toSorted((a, b) => newer(a, b) || worth(b) - worth(a)).map((model, place) => [model, place] as const),
    ),
  );
  return models.toSorted((a, b) => (age.get(a) ?? 0) - (age.get(b) ?? 0) || worth(b) - worth(a) || newer(a, b));
}

const NUMBER = /\d+(?:[.-]\d{1,2}(?!\d))*/; // a version; a year or a day has more digits
const lineOf = (family: string) => family.replace(NUMBER, "").split(/[-.]+/).filter(Boolean).join("-");
const versionOf = (family: string) => (NUMBER.exec(family)?.[0] ?? "").split(/[.-]/).map(Number);

// `latest`, or a name without a date, is newer than any date.
const dateOf = ({ version }: Model) => (/^\d{3,}$/.test(version) ? Number(version) : Number.MAX_VALUE);

/** Newer first. */
function newer(a: Model, b: Model): number {
  const [left, right] = [versionOf(a.family), versionOf(b.family)];
  for (let place = 0; place < Math.max(left.length, right.length); place++) {
    const later = (right[place] ?? 0) - (left[place] ?? 0);
    if (later) return later;
  }
  return dateOf(b) - dateOf(a);
}

/** What is likely to be wanted: tools, thinking, a large window. The list has no dates of its own. */
function worth({ id, capabilities, configurationSchema, maxInputTokens }: Model): number {
  const traits = [
    !/\d{6}|\d{4}-\d\d-\d\d|preview|free/.test(id),
    configurationSchema !== undefined,
    Boolean(capabilities.toolCalling),
  ];
  return traits.reduce((sum, trait, place) => sum + (trait ? 2 ** place : 0), Math.min(maxInputTokens / 1e7, 0.99));
}

export function matches(pattern: string, id: string): boolean {
  const source = pattern.split("*").map((piece) => piece.replace(/[.+?^${}()|[\]\\]/g, "\\$&"));
  return new RegExp(`^${source.join(".*")}$`, "i").test(id);
}

/**
 * The model named, else the one whose tokens cost least; where no price is known, the first. Thinking is paid for as well,
 * and what costs nothing is seldom there when it is needed, so neither is taken where there is another.
 */
export function utilityOf(models: readonly Model[], named: string): Model | undefined {
  const found = models.find(({ id }) => id === named);
  if (found) return found;
  const fit = models.filter(({ maxInputTokens }) => maxInputTokens >= CHEAP_ENOUGH);
  const able = fit.filter(({ capabilities }) => capabilities.toolCalling);
  const priced = [able, fit].map((some) => some.filter((model) => price(model) > 0)).find((some) => some.length) ?? [];
  return priced.toSorted((a, b) => price(a) - price(b))[0] ?? fit[0] ?? models[0];
}

/** What a prompt of three parts and an answer of one cost, in dollars for a million tokens; 0: nothing, or not known. */
function price({ prices, configurationSchema }: Model): number {
  const plain = 3 * (prices?.input ?? 0) + (prices?.output ?? 0);
  return configurationSchema ? plain * THINKING : plain;
}
