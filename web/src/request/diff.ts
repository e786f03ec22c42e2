// The structural difference of two JSON values: what was added, removed, changed, or moved. Pure.
import { entriesOf, isContainer, type Json, plainText, pointer, sizeOf } from "./tree.ts";

export type Change = "same" | "added" | "removed" | "changed" | "moved" | "inside";

/** A pair of values. A side that has none is undefined. `inside`: something inside of it differs. */
export interface Pair {
  change: Change;
  name: string | null;
  left: Json | undefined;
  right: Json | undefined;
  leftPlace: string;
  rightPlace: string;
  children: Pair[];
  /** The place on the other side that an equal value moved to, or came from. */
  other?: string;
}

const MAX_ALIGNED = 400; // elements of a list that are aligned; of longer ones only equal beginnings and ends are
const MAX_DEPTH = 200;
const LEAST_MOVED = 6; // characters of a value that is found again elsewhere

export function diffJson(left: Json, right: Json): Pair {
  const whole = compare(null, left, right, "", "", 0);
  findMoves(whole);
  return whole;
}

function compare(
  name: string | null,
  left: Json | undefined,
  right: Json | undefined,
  leftPlace: string,
  rightPlace: string,
  depth: number,
): Pair {
  const pair: Pair = { change: "same", name, left, right, leftPlace, rightPlace, children: [] };
  pair.change = changeOf(left, right);
  if (pair.change === "changed" && depth < MAX_DEPTH && isSameKind(left, right)) {
    pair.change = "inside";
    pair.children = compareInside(pair, depth);
  }
  return pair;
}

function changeOf(left: Json | undefined, right: Json | undefined): "same" | "added" | "removed" | "changed" {
  if (left === undefined) return "added";
  if (right === undefined) return "removed";
  return isEqual(left, right) ? "same" : "changed";
}

/** Whether both are objects, or both are lists. */
function isSameKind(left: Json | undefined, right: Json | undefined): boolean {
  if (left === undefined || right === undefined || !isContainer(left) || !isContainer(right)) return false;
  return Array.isArray(left) === Array.isArray(right);
}

function compareInside({ left, right, leftPlace, rightPlace }: Pair, depth: number): Pair[] {
  if (Array.isArray(left) && Array.isArray(right)) {
    return align(left, right).map(([at, to]) =>
      compare(
        null,
        at < 0 ? undefined : left[at],
        to < 0 ? undefined : right[to],
        pointer(leftPlace, String(at < 0 ? to : at)),
        pointer(rightPlace, String(to < 0 ? at : to)),
        depth + 1,
      ),
    );
  }
  const [before, after] = [new Map(entriesOf(left as Json)), new Map(entriesOf(right as Json))];
  const names = [...before.keys(), ...[...after.keys()].filter((name) => !before.has(name))];
  return names.map((name) =>
    compare(name, before.get(name), after.get(name), pointer(leftPlace, name), pointer(rightPlace, name), depth + 1),
  );
}

/** Which element of a list stands beside which; -1: beside none. */
function align(left: Json[], right: Json[]): [number, number][] {
  let start = 0;
  while (start < left.length && start < right.length && isEqual(left[start], right[start])) start++;
  let end = 0;
  const most = Math.min(left.length, right.length) - start;
  while (end < most && isEqual(left[left.length - 1 - end], right[right.length - 1 - end])) end++;
  const pairs: [number, number][] = Array.from({ length: start }, (_, at) => [at, at]);
  pairs.push(...alignMiddle(left, right, start, left.length - end, right.length - end));
  for (let at = end; at > 0; at--) pairs.push([left.length - at, right.length - at]);
  return pairs;
}

function alignMiddle(
  left: Json[],
  right: Json[],
  start: number,
  leftEnd: number,
  rightEnd: number,
): [number, number][] {
  const pairs: [number, number][] = [];
  const short = leftEnd - start <= MAX_ALIGNED && rightEnd - start <= MAX_ALIGNED;
  const common = short ? commonElements(left.slice(start, leftEnd), right.slice(start, rightEnd)) : [];
  let [at, to] = [start, start];
  for (const [one, other] of common) {
    pairs.push(...pairUp(at, one + start, to, other + start), [one + start, other + start]);
    [at, to] = [one + start + 1, other + start + 1];
  }
  pairs.push(...pairUp(at, leftEnd, to, rightEnd));
  return pairs;
}

/** Elements between two equal ones, side by side; the rest stand alone. */
function pairUp(left: number, leftEnd: number, right: number, rightEnd: number): [number, number][] {
  const most = Math.max(leftEnd - left, rightEnd - right);
  return Array.from({ length: most }, (_, step) => [
    left + step < leftEnd ? left + step : -1,
    right + step < rightEnd ? right + step : -1,
  ]);
}

/** The longest common subsequence. */
function commonElements(left: Json[], right: Json[]): [number, number][] {
  const [texts, others] = [left.map(digest), right.map(digest)];
  const length = commonLengths(texts, others);
  const found: [number, number][] = [];
  let [row, column] = [0, 0];
  while (row < texts.length && column < others.length) {
    if (texts[row] === others[column]) found.push([row++, column++]);
    else if (length(row + 1, column) >= length(row, column + 1)) row++;
    else column++;
  }
  return found;
}

function commonLengths(texts: string[], others: string[]): (row: number, column: number) => number {
  const width = others.length + 1;
  const lengths = new Uint16Array((texts.length + 1) * width);
  const at = (row: number, column: number) => lengths[row * width + column] ?? 0;
  for (let row = texts.length - 1; row >= 0; row--) {
    for (let column = others.length - 1; column >= 0; column--) {
      const longer = Math.max(at(row + 1, column), at(row, column + 1));
      lengths[row * width + column] = texts[row] === others[column] ? at(row + 1, column + 1) + 1 : longer;
    }
  }
  return at;
}

function digest(value: Json): string {
  return isContainer(value) ? JSON.stringify(value) : `${typeof value} ${plainText(value)}`;
}

export function isEqual(left: Json | undefined, right: Json | undefined): boolean {
  if (left === right) return true;
  if (left === undefined || right === undefined) return false;
  if (!isContainer(left) || !isContainer(right)) {
    return !isContainer(left) && !isContainer(right) && typeof left === typeof right && digest(left) === digest(right);
  }
  if (Array.isArray(left) !== Array.isArray(right) || sizeOf(left) !== sizeOf(right)) return false;
  const entries = entriesOf(left);
  if (entries.length !== entriesOf(right).length) return false;
  if (Array.isArray(left)) return left.every((one, index) => isEqual(one, (right as Json[])[index]));
  return entries.every(
    ([name, one]) => Object.hasOwn(right, name) && isEqual(one, (right as Record<string, Json>)[name]),
  );
}

/** Marks values that were removed in one place and added in another. Each is used once. */
function findMoves(whole: Pair): void {
  const [removed, added]: [Map<string, Pair[]>, Pair[]] = [new Map(), []];
  const look = (pair: Pair): void => {
    if (pair.change === "removed") for (const one of leaves(pair, "left")) remember(removed, one);
    else if (pair.change === "added") added.push(...leaves(pair, "right"));
    else for (const child of pair.children) look(child);
  };
  look(whole);
  for (const one of added) {
    const found = removed.get(digest(one.right as Json))?.shift();
    if (found) {
      [one.change, one.other] = ["moved", found.leftPlace];
      [found.change, found.other] = ["moved", one.rightPlace];
    }
  }
}

function remember(removed: Map<string, Pair[]>, pair: Pair): void {
  const key = digest(pair.left as Json);
  const known = removed.get(key);
  if (known) known.push(pair);
  else removed.set(key, [pair]);
}

/** What may have moved: the plain values inside of a removed or added one. They become its children. */
function leaves(pair: Pair, side: "left" | "right", depth = 0): Pair[] {
  const value = pair[side] as Json;
  if (!isContainer(value)) return isTelling(value) ? [pair] : [];
  if (depth > MAX_DEPTH) return [];
  const list = Array.isArray(value);
  pair.children = entriesOf(value).map(([name, inner]) => ({
    change: pair.change,
    name: list ? null : name,
    left: side === "left" ? inner : undefined,
    right: side === "right" ? inner : undefined,
    leftPlace: pointer(pair.leftPlace, name),
    rightPlace: pointer(pair.rightPlace, name),
    children: [],
  }));
  return pair.children.flatMap((child) => leaves(child, side, depth + 1));
}

/** Whether a value is long enough to be recognised elsewhere: `true` and `user` are everywhere. */
function isTelling(value: Json): boolean {
  return typeof value === "number" ? Math.abs(value) >= 100 : plainText(value).length >= LEAST_MOVED;
}

export interface PairRow {
  pair: Pair;
  depth: number;
  open: boolean;
  /** Instead of a pair: how many equal ones are folded here, under this key. */
  equal?: number;
  key: string;
}

/** The rows of a difference. `isOpen` decides by key what is unfolded. */
export function pairRows(
  whole: Pair,
  isOpen: (key: string, byDefault: boolean) => boolean,
  onlyChanges: boolean,
): PairRow[] {
  const rows: PairRow[] = [];
  const add = (pair: Pair, depth: number): void => {
    const key = `${pair.leftPlace} ${pair.rightPlace} ${pair.change}`;
    const folds = pair.children.length > 0;
    const open = folds && isOpen(key, true);
    rows.push({ pair, depth, open, key });
    if (open) addAll(pair.children, depth + 1);
  };
  const addAll = (pairs: Pair[], depth: number): void => {
    let equal: Pair[] = [];
    const flush = (): void => {
      const [first] = equal;
      if (!first) return;
      const key = `equal ${first.leftPlace}`;
      if (onlyChanges && equal.length > 1 && !isOpen(key, false)) {
        rows.push({ pair: first, depth, open: false, equal: equal.length, key });
      } else for (const one of equal) add(one, depth);
      equal = [];
    };
    for (const pair of pairs) {
      if (pair.change === "same") equal.push(pair);
      else {
        flush();
        add(pair, depth);
      }
    }
    flush();
  };
  add(whole, 0);
  return rows;
}

export interface ChangeCounts {
  added: number;
  removed: number;
  changed: number;
  moved: number;
}

export function countChanges(whole: Pair): ChangeCounts {
  const counts: ChangeCounts = { added: 0, removed: 0, changed: 0, moved: 0 };
  const look = (pair: Pair): void => {
    if (pair.children.length === 0 && pair.change !== "same" && pair.change !== "inside") counts[pair.change]++;
    for (const child of pair.children) look(child);
  };
  look(whole);
  counts.moved /= 2; // each is there twice: where it was and where it is
  return counts;
}
