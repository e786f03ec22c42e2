// A JSON value as rows of a tree that can be folded, and what is found in it. Pure.
import { visibleText } from "../ui/visibleText.ts";

export type Json = null | boolean | number | string | RawNumber | Json[] | { [key: string]: Json };

/** A number that JavaScript cannot hold: shown as it was written. */
export class RawNumber {
  readonly source: string;
  constructor(source: string) {
    this.source = source;
  }
}

export interface TreeRow {
  /** JSON Pointer (RFC 6901). */
  place: string;
  depth: number;
  /** Null: an element of a list, or the whole. */
  name: string | null;
  value: Json;
  /** How many there are inside; null for a plain value. */
  count: number | null;
  open: boolean;
}

export const MAX_ROWS = 500_000;
const MAX_DEPTH = 300;
const LONG_DIGITS = /\d{16}/;

/** The value of a JSON text, or undefined if it is none. */
export function parseJson(text: string): Json | undefined {
  try {
    return JSON.parse(text, hasLongNumbers(text) ? keepDigits : undefined) as Json;
  } catch {
    return undefined;
  }
}

/** Whether a JSON text may have numbers that JavaScript cannot hold. */
export function hasLongNumbers(text: string): boolean {
  return LONG_DIGITS.test(text);
}

/** Whether a JSON text has a number that JavaScript rounds. */
export function losesDigits(text: string): boolean {
  const holds = (value: Json): boolean =>
    value instanceof RawNumber || entriesOf(value).some(([, inner]) => holds(inner));
  return hasLongNumbers(text) && holds(parseJson(text) ?? null);
}

function keepDigits(_: string, value: unknown, context?: { source?: string }): unknown {
  const source = context?.source;
  return typeof value === "number" && source !== undefined && String(value) !== source && LONG_DIGITS.test(source)
    ? new RawNumber(source)
    : value;
}

export function isContainer(value: Json): value is Json[] | { [key: string]: Json } {
  return typeof value === "object" && value !== null && !(value instanceof RawNumber);
}

export function entriesOf(value: Json): [string, Json][] {
  if (!isContainer(value)) return [];
  return Array.isArray(value) ? value.map((inner, index) => [String(index), inner]) : Object.entries(value);
}

export function pointer(parent: string, key: string): string {
  return `${parent}/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`;
}

/** The places around a place, from the whole to its parent. */
export function ancestors(place: string): string[] {
  const found: string[] = [];
  for (let end = place.lastIndexOf("/"); end >= 0; end = place.lastIndexOf("/", end - 1)) {
    found.push(place.slice(0, end));
    if (end === 0) break;
  }
  return found.reverse();
}

export function valueAt(value: Json, place: string): Json | undefined {
  let now: Json | undefined = value;
  for (const step of place.split("/").slice(1)) {
    if (now === undefined || !isContainer(now)) return undefined;
    const key = step.replaceAll("~1", "/").replaceAll("~0", "~");
    now = Array.isArray(now) ? now[Number(key)] : Object.hasOwn(now, key) ? now[key] : undefined;
  }
  return now;
}

type IsOpen = (place: string, depth: number) => boolean;

/** The rows that are seen: those inside of what is open. */
export function treeRows(value: Json, isOpen: IsOpen): TreeRow[] {
  const rows: TreeRow[] = [];
  addRow(rows, { place: "", depth: 0, name: null, value }, isOpen);
  return rows;
}

function addRow(rows: TreeRow[], start: Pick<TreeRow, "place" | "depth" | "name" | "value">, isOpen: IsOpen): void {
  const { place, depth, value } = start;
  const entries = entriesOf(value);
  const open = entries.length > 0 && depth < MAX_DEPTH && isOpen(place, depth);
  rows.push({ ...start, count: isContainer(value) ? entries.length : null, open });
  if (!open) return;
  const named = !Array.isArray(value);
  for (const [key, inner] of entries) {
    if (rows.length >= MAX_ROWS) return;
    addRow(rows, { place: pointer(place, key), depth: depth + 1, name: named ? key : null, value: inner }, isOpen);
  }
}

const sizes = new WeakMap<object, number>();

/** Characters of a value as compact JSON, about: escapes are not counted. */
export function sizeOf(value: Json, depth = 0): number {
  if (typeof value === "string") return value.length + 2;
  if (!isContainer(value)) return value instanceof RawNumber ? value.source.length : String(value).length;
  const known = sizes.get(value);
  if (known !== undefined) return known;
  const entries = depth < MAX_DEPTH ? entriesOf(value) : [];
  let size = 2 + Math.max(0, entries.length - 1);
  for (const [key, inner] of entries) size += sizeOf(inner, depth + 1) + (Array.isArray(value) ? 0 : key.length + 3);
  sizes.set(value, size);
  return size;
}

export const MAX_FOUND = 10_000;

/** The places whose name or plain value has these words, in order. */
export function findPlaces(value: Json, words: string): string[] {
  const found: string[] = [];
  if (words) lookInside(found, words.toLowerCase(), { place: "", name: "", value }, 0);
  return found;
}

interface Looked {
  place: string;
  name: string;
  value: Json;
}

function lookInside(found: string[], wanted: string, { place, name, value }: Looked, depth: number): void {
  if (has(name, wanted) || (!isContainer(value) && has(plainText(value), wanted))) found.push(place);
  if (depth >= MAX_DEPTH) return;
  const list = Array.isArray(value);
  for (const [key, inner] of entriesOf(value)) {
    if (found.length >= MAX_FOUND) return;
    lookInside(found, wanted, { place: pointer(place, key), name: list ? "" : key, value: inner }, depth + 1);
  }
}

function has(text: string, wanted: string): boolean {
  return text.toLowerCase().includes(wanted);
}

/** A plain value as text: a string is itself. */
export function plainText(value: Json): string {
  if (value instanceof RawNumber) return value.source;
  return typeof value === "string" ? value : String(value);
}

/** A value as one would copy it: a string is itself, all else is JSON. */
export function copyText(value: Json): string {
  if (typeof value === "string") return value;
  return writeJson(value, 0);
}

function writeJson(value: Json, depth: number): string {
  if (value instanceof RawNumber) return value.source;
  if (!isContainer(value) || depth > MAX_DEPTH) return JSON.stringify(value);
  const pad = "  ".repeat(depth + 1);
  const entries = entriesOf(value);
  const [start, end] = Array.isArray(value) ? "[]" : "{}";
  if (!entries.length) return `${start}${end}`;
  const lines = entries.map(([key, inner]) => {
    const text = writeJson(inner, depth + 1);
    return `${pad}${Array.isArray(value) ? text : `${JSON.stringify(key)}: ${text}`}`;
  });
  return `${start}\n${lines.join(",\n")}\n${"  ".repeat(depth)}${end}`;
}

/** How a value is shown in one row. */
export function rowText(value: Json, longest = 300): string {
  if (typeof value === "string") {
    const text = JSON.stringify(value.length > longest ? value.slice(0, longest) : value);
    return visibleText(value.length > longest ? `${text.slice(0, -1)}…` : text);
  }
  if (!isContainer(value)) return plainText(value);
  const count = entriesOf(value).length;
  if (Array.isArray(value)) return count === 0 ? "[]" : `[ ${count} ]`;
  return count === 0 ? "{}" : `{ ${count} }`;
}

export function kindOf(value: Json): "string" | "number" | "word" | "mark" {
  if (typeof value === "string") return "string";
  if (typeof value === "number" || value instanceof RawNumber) return "number";
  return isContainer(value) ? "mark" : "word";
}

/** The same for a row that may be unfolded: then only its bracket is shown. */
export function openText(value: Json, open: boolean): string {
  if (!open || !isContainer(value)) return rowText(value);
  return Array.isArray(value) ? "[" : "{";
}
