// The difference of two lists of lines or words. Pure, and bounded: lists that differ too much are shown as replaced.

export type ChangeKind = "same" | "removed" | "added";

export interface Change {
  kind: ChangeKind;
  items: string[];
}

/** Differences beyond this many are not looked for: the time grows with their square. */
export const MOST_DIFFERENCES = 1500;

/** What must be removed from `before` and added to reach `after`, in order. */
export function diffItems(before: readonly string[], after: readonly string[], most = MOST_DIFFERENCES): Change[] {
  let start = 0;
  const shorter = Math.min(before.length, after.length);
  while (start < shorter && before[start] === after[start]) start++;
  let end = 0;
  while (end < shorter - start && before[before.length - 1 - end] === after[after.length - 1 - end]) end++;
  const left = before.slice(start, before.length - end);
  const right = after.slice(start, after.length - end);
  const changes: Change[] = [];
  add(changes, "same", before.slice(0, start));
  for (const { kind, items } of diffMiddle(left, right, most)) add(changes, kind, items);
  add(changes, "same", before.slice(before.length - end));
  return changes;
}

function add(changes: Change[], kind: ChangeKind, items: readonly string[]): void {
  if (items.length === 0) return;
  const last = changes.at(-1);
  if (last?.kind !== kind) changes.push({ kind, items: [...items] });
  else for (const item of items) last.items.push(item); // not spread: there may be too many for a call
}

/** Myers' algorithm: the furthest place on each diagonal, one difference more in each round. */
function diffMiddle(left: string[], right: string[], most: number): Change[] {
  if (left.length === 0 || right.length === 0) return replaced(left, right);
  const bound = Math.min(left.length + right.length, most);
  const furthest = new Int32Array(2 * bound + 3);
  const rounds: Int32Array[] = [];
  for (let count = 0; count <= bound; count++) {
    rounds.push(furthest.slice(bound - count, bound + count + 3));
    for (let diagonal = -count; diagonal <= count; diagonal += 2) {
      const x = advance(furthest, bound + 1 + diagonal, diagonal, count, left, right);
      if (x >= left.length && x - diagonal >= right.length) return trace(rounds, left, right, count);
    }
  }
  return replaced(left, right);
}

function advance(
  furthest: Int32Array,
  at: number,
  diagonal: number,
  count: number,
  left: string[],
  right: string[],
): number {
  const below = furthest[at - 1] ?? 0;
  const above = furthest[at + 1] ?? 0;
  let x = diagonal === -count || (diagonal !== count && below < above) ? above : below + 1;
  while (x < left.length && x - diagonal < right.length && left[x] === right[x - diagonal]) x++;
  furthest[at] = x;
  return x;
}

/** Walks back through the rounds. `rounds[n]` has the diagonals -n-1 to n+1 as they were before round n. */
function trace(rounds: Int32Array[], left: string[], right: string[], count: number): Change[] {
  const steps: [ChangeKind, string][] = [];
  let x = left.length;
  let y = right.length;
  const back = (toX: number, toY: number) => {
    for (; x > toX && y > toY; y--) steps.push(["same", left[--x] ?? ""]);
  };
  for (let round = count; round > 0; round--) {
    const [down, startX, startY] = stepBefore(rounds[round] ?? new Int32Array(0), round, x - y);
    back(startX, startY);
    if (down) steps.push(["added", right[--y] ?? ""]);
    else steps.push(["removed", left[--x] ?? ""]);
  }
  back(0, 0);
  const changes: Change[] = [];
  for (const [kind, item] of steps.toReversed()) add(changes, kind, [item]);
  return changes;
}

/** How a round reached a diagonal: by an added item (down) or a removed one, and from where. */
function stepBefore(before: Int32Array, round: number, diagonal: number): [down: boolean, x: number, y: number] {
  const at = (other: number) => before[other + round + 1] ?? 0;
  const down = diagonal === -round || (diagonal !== round && at(diagonal - 1) < at(diagonal + 1));
  const previous = down ? diagonal + 1 : diagonal - 1;
  return [down, at(previous), at(previous) - previous];
}

function replaced(left: string[], right: string[]): Change[] {
  const changes: Change[] = [];
  add(changes, "removed", left);
  add(changes, "added", right);
  return changes;
}

/** Words with the white space behind them; a line break ends a word. */
export function wordsOf(text: string): string[] {
  return text.match(/[^\s]+[^\S\n]*\n?|\s/g) ?? [];
}

export interface LineChange {
  kind: ChangeKind | "changed";
  /** The line before; for a changed line the words of it that are the same and those that were removed or added. */
  text: string;
  words?: Change[];
}

/** The lines of both texts in order; a removed line beside an added one is one changed line, word by word. */
export function diffLines(before: readonly string[], after: readonly string[]): LineChange[] {
  const changes = diffItems(before, after);
  return changes.flatMap(({ kind, items }, index): LineChange[] => {
    const next = changes[index + 1];
    if (kind === "removed" && next?.kind === "added") return changedLines(items, next.items);
    if (kind === "added" && changes[index - 1]?.kind === "removed") return []; // those are changed lines
    return items.map((text) => ({ kind, text }));
  });
}

function changedLines(before: string[], after: string[]): LineChange[] {
  const pairs = Math.min(before.length, after.length);
  const changed = before.slice(0, pairs).map((text, index): LineChange => {
    return { kind: "changed", text, words: diffItems(wordsOf(text), wordsOf(after[index] ?? ""), 300) };
  });
  const removed = before.slice(pairs).map((text): LineChange => ({ kind: "removed", text }));
  const added = after.slice(pairs).map((text): LineChange => ({ kind: "added", text }));
  return [...changed, ...removed, ...added];
}
