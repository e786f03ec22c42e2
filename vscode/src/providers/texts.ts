// What a person reads about a provider.

import type { ModelFacts, ProviderEntry, ProviderRow } from "../gateway/provider-routes.ts";
import { maskedKey } from "./store.ts";

/** Where the key of a provider is; empty: it has none. */
export function sourceText({ source, variable, keys = 0, local, own }: ProviderRow): string {
  switch (source) {
    case "editor":
      return keys > 1 ? `${keys} keys in VS Code` : keys ? "key in VS Code" : "set up in VS Code";
    case "configuration":
      return own ? "server in penstock.toml" : "set up in penstock.toml";
    case "environment":
      return `key in ${variable}`;
    case "stored":
      return "key stored by penstock setup";
    default:
      return local ? "runs on this machine" : "";
  }
}

/** The site of a page, without what a reader does not need. */
export function siteOf(url: string): string {
  return URL.canParse(url) ? new URL(url).host : url;
}

/** What is known of a model: its window, what it can do, what it costs. */
export function factsText({ context, max_output, vision, tools, prices }: ModelFacts): string {
  const price = prices && `$${prices.input ?? "?"} in, $${prices.output ?? "?"} out`;
  return [
    context && `window ${context.toLocaleString("en")}`,
    max_output && `answer ${max_output.toLocaleString("en")}`,
    vision !== undefined && (vision ? "images" : "no images"),
    tools !== undefined && (tools ? "tools" : "no tools"),
    price,
  ]
    .filter(Boolean)
    .join(", ");
}

/** The keys of an entry, as they may be shown. */
export function keysText({ keys }: ProviderEntry): string {
  if (!keys.length) return "no key";
  return keys.length === 1 ? `key ${maskedKey(keys[0] ?? "")}` : `keys ${keys.map(maskedKey).join(", ")}`;
}

/** A whole number above zero that a person typed (`128k`, `65,536`); undefined: it is none. */
export function tokensOf(text: string): number | undefined {
  const found = /^(\d{1,12})\s*(k|m)?$/i.exec(text.trim().replaceAll(/[,_ ]/g, ""));
  if (!found) return undefined;
  const scale = { k: 1_000, m: 1_000_000 }[found[2]?.toLowerCase() ?? ""] ?? 1;
  return Number(found[1]) * scale || undefined;
}

/** Prices that a person typed, for input and output (`0.5 1.5`); undefined: they are none. */
export function pricesOf(text: string): { input: number; output: number } | undefined {
  const numbers = text
    .replaceAll(/[$,;/]/g, " ")
    .trim()
    .split(/\s+/)
    .map((word) => (/^\d{1,6}(\.\d{1,6})?$/.test(word) ? Number(word) : Number.NaN));
  const [input = Number.NaN, output = Number.NaN] = numbers;
  return numbers.length === 2 && !numbers.some(Number.isNaN) ? { input, output } : undefined;
}
