// The structural difference of two JSON values: what was added, removed, changed, or moved. Pure.
import { diffItems } from "../ui/lineDiff.ts";
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

/** Which element of a list stands beside which; -1: beside none. Elements between two equal ones stand side by side. */
function align(left: Json[], right: Json[]): [number, number][] {
  const pairs: [number, number][] = [];
  let [at, to, removed, added] = [0, 0, 0, 0];
  const pairUp = () => {
    for (let step = 0; step < Math.max(removed, added); step++) {
      pairs.push([step < removed ? at + step : -1, step < added ? to + step : -1]);
    }
    [at, to, removed, added] = [at + removed, to + added, 0, 0];
  };
  for (const { kind, items } of diffItems(left.map(digest), right.map(digest))) {
    if (kind === "removed") removed += items.length;
    else if (kind === "added") added += items.length;
    else {
      pairUp();
      for (const _ of items) pairs.push([at++, to++]);
    }
  }
  pairUp();
  return pairs;
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
  const removed = new Map<string, Pair[]>();
  let added: Pair[] = [];
  const look = (pair: Pair): void => {
    if (pair.change === "removed") for (const one of leaves(pair, "left")) remember(removed, one);
    else if (pair.change === "added") added = added.concat(leaves(pair, "right"));
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
      if (onlyChanges && !isOpen(key, false)) {
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
