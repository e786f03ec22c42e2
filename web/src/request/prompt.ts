// The conversation of a request for reading: parameters of tools, links of calls, tokens, the end of a cache hit. Pure.
import type { Breakdown, BreakdownLine } from "../api/types.ts";
import { formatMany } from "../ui/format.ts";
import type { Canonical, Part } from "./types.ts";

export interface Parameter {
  name: string;
  type: string;
  required: boolean;
  description: string;
  depth: number;
}

type Schema = Record<string, unknown>;
const MAX_PARAMETERS = 200;
const MAX_DEPTH = 6;

/** The parameters of a tool, those of objects inside of it behind their parent. */
export function parametersOf(schema: Schema | null | undefined): Parameter[] {
  const found: Parameter[] = [];
  addParameters(found, schema ?? {}, 0);
  return found;
}

function addParameters(found: Parameter[], schema: Schema, depth: number): void {
  const properties = asSchema(schema.properties);
  const required = Array.isArray(schema.required) ? schema.required : [];
  for (const [name, value] of Object.entries(properties)) {
    if (found.length >= MAX_PARAMETERS || depth >= MAX_DEPTH) return;
    const inner = asSchema(value);
    const description = typeof inner.description === "string" ? inner.description : "";
    found.push({ name, type: describeType(inner), required: required.includes(name), description, depth });
    addParameters(found, inner.type === "array" ? asSchema(inner.items) : inner, depth + 1);
  }
}

function asSchema(value: unknown): Schema {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Schema) : {};
}

/** The type of a parameter in words: `integer`, `array of string`, `"a" or "b"`. */
export function describeType(schema: Schema): string {
  if (Array.isArray(schema.enum)) return schema.enum.map((one) => JSON.stringify(one)).join(" or ");
  if ("const" in schema) return JSON.stringify(schema.const);
  const several = schema.anyOf ?? schema.oneOf;
  if (Array.isArray(several)) return several.map((one) => describeType(asSchema(one))).join(" or ");
  const type = schema.type;
  if (type === "array") return `array of ${describeType(asSchema(schema.items))}`;
  if (Array.isArray(type)) return type.join(" or ");
  return typeof type === "string" ? type : "any";
}

export interface CallLinks {
  /** Call id → the message that has the call, or its result. */
  calls: ReadonlyMap<string, number>;
  results: ReadonlyMap<string, number>;
  names: ReadonlyMap<string, string>;
}

export function linkCalls(request: Canonical): CallLinks {
  const [calls, results, names] = [new Map<string, number>(), new Map<string, number>(), new Map<string, string>()];
  const parts = (request.messages ?? []).flatMap(({ parts: own = [] }, number) =>
    own.map((part) => ({ part, number })),
  );
  for (const { part, number } of parts) {
    if (part.type === "call" && part.id) {
      calls.set(part.id, number);
      names.set(part.id, part.name ?? "");
    }
    if (part.type === "result" && part.call) results.set(part.call, number);
  }
  return { calls, results, names };
}

/** The tokens of each message. */
export function messageTokens(breakdown: Breakdown | null): Map<number, BreakdownLine> {
  const lines = breakdown?.lines.filter((line) => line.message !== undefined) ?? [];
  return new Map(lines.map((line) => [line.message as number, line]));
}

/** What a prompt has beside the messages and tools that are shown one by one, so that all rows add up to the total. */
export function otherLines(breakdown: Breakdown): BreakdownLine[] {
  return breakdown.lines.filter(({ kind, message }) => kind !== "tools" && message === undefined);
}

/** A place behind the tools and before the first message. */
export const IN_TOOLS = -1;

/**
 * The message in which a hit of the prompt cache ended, as the provider reported it; `IN_TOOLS` if it ended before the
 * first one, null if there was none. It is as exact as the estimate: files are divided equally among those that hold
 * them, and the parts are scaled to the provider's count.
 */
export function cacheEnd(breakdown: Breakdown | null, cached: number | null, request: Canonical): number | null {
  if (!breakdown || !cached) return null;
  const reached = breakdown.actual ? (cached / breakdown.actual) * breakdown.tokens : cached;
  const sum = (kind: string) => breakdown.lines.reduce((all, one) => all + (one.kind === kind ? one.tokens : 0), 0);
  let passed = sum("tools") + sum("hidden") + sum("framing");
  if (passed >= reached && sum("tools") > 0) return IN_TOOLS;
  const files = (request.messages ?? []).map(({ parts = [] }) => countFiles(parts));
  const perFile =
    sum("images") /
    Math.max(
      1,
      files.reduce((all, one) => all + one, 0),
    );
  const messages = [...messageTokens(breakdown)].sort(([one], [other]) => one - other);
  for (const [number, line] of messages) {
    passed += line.tokens + perFile * (files[number] ?? 0);
    if (passed >= reached) return number;
  }
  return messages.at(-1)?.[0] ?? null;
}

function countFiles(parts: readonly Part[]): number {
  return parts.reduce((all, part) => all + (part.type === "file" ? 1 : 0) + countFiles(part.content ?? []), 0);
}

/** What the provider said of its cache; "" while it may still say so. */
export function describeCache(cached: number | null, running = false): string {
  if (cached === null && running) return "";
  if (cached === null) return "The provider did not say whether it read some of them from its cache.";
  return `The provider read ${cached === 0 ? "none" : cached.toLocaleString("en")} of them from its cache.`;
}

/** Characters of a part, those of files included. */
export function partSize(part: Part): number {
  const data = typeof part.data === "string" ? part.data.length : 0;
  const inside = (part.content ?? []).reduce((sum, one) => sum + partSize(one), 0);
  return (part.text?.length ?? 0) + (part.json?.length ?? 0) + data + inside;
}

/** Where a hit of the provider's cache ends. The place is estimated, the length is not. */
export function describeCacheHit(cached: number, place: string): string {
  return `The provider's cache hit (${formatMany(cached, "token")}) ends about in ${place}.`;
}
