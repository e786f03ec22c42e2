// Glob patterns of paths, as in `files.exclude`: `*`, `?`, `**` and `{a,b}`. No regular expressions: a pattern can come from a
// workspace, and matching takes at most (length of the pattern) × (length of the path) steps.

const MOST_ALTERNATIVES = 64;

/** Whether a path with forward slashes matches. Letter case does not count. A pattern may begin at any folder. */
export function matchesGlob(pattern: string, path: string): boolean {
  const segments = segmentsOf(path);
  return expandBraces(pattern.toLowerCase()).some((one) => matchSegments(["**", ...segmentsOf(one)], segments));
}

const segmentsOf = (path: string): string[] => path.toLowerCase().split("/").filter(Boolean);

/** `a.{b,c}` as `a.b` and `a.c`. A pattern with too many alternatives keeps its braces as plain characters. */
export function expandBraces(pattern: string): string[] {
  let found = [pattern];
  while (found.length <= MOST_ALTERNATIVES) {
    const next = found.flatMap(expandFirst);
    if (next.length === found.length) return next;
    found = next;
  }
  return [pattern];
}

function expandFirst(pattern: string): string[] {
  const close = pattern.indexOf("}");
  const open = close < 0 ? -1 : pattern.lastIndexOf("{", close);
  if (open < 0) return [pattern];
  const inside = pattern.slice(open + 1, close).split(",");
  // One alternative in braces would never come to an end here: a brace alone is not a list.
  if (inside.length < 2) return [pattern];
  return inside.map((one) => pattern.slice(0, open) + one + pattern.slice(close + 1));
}

const matchSegments = (pattern: readonly string[], path: readonly string[]): boolean =>
  matchWildcards(pattern, path, (one) => one === "**", matchName);

const matchName = (pattern: string, name: string): boolean =>
  matchWildcards(
    [...pattern],
    [...name],
    (one) => one === "*",
    (one, letter) => one === "?" || one === letter,
  );

/**
 * Greedy matching with one point to return to: the last wildcard. Earlier wildcards need no second try, because whatever the
 * last one leaves is as good for them.
 */
function matchWildcards<T>(
  pattern: readonly T[],
  items: readonly T[],
  isWildcard: (one: T) => boolean,
  equal: (one: T, item: T) => boolean,
): boolean {
  let [at, item, wildcard, resume] = [0, 0, -1, 0];
  while (item < items.length) {
    const one = pattern[at];
    if (one !== undefined && isWildcard(one)) {
      wildcard = at++;
      resume = item;
    } else if (one !== undefined && equal(one, items[item] as T)) {
      at++;
      item++;
    } else if (wildcard >= 0) {
      at = wildcard + 1;
      item = ++resume;
    } else return false;
  }
  return pattern.slice(at).every(isWildcard);
}
