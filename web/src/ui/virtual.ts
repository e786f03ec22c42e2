// Which rows of a long list are drawn: arithmetic only, for rows of one height.

export interface Stretch {
  first: number;
  /** One past the last. */
  end: number;
}

/** The rows that are seen, and some beyond either edge so that a quick scroll shows no blank. */
export function seenRows(top: number, height: number, row: number, count: number, beyond = 8): Stretch {
  const first = Math.max(0, Math.min(Math.floor(top / row) - beyond, count));
  const end = Math.min(count, Math.ceil((top + height) / row) + beyond);
  return { first, end: Math.max(end, first) };
}

/** Where to scroll so that rows `first` to `last` are seen; `top` itself if they are. `margin` rows stay around. */
export function topToShow(top: number, height: number, row: number, first: number, last: number, margin = 1): number {
  const from = (first - margin) * row;
  const to = (last + 1 + margin) * row;
  if (from < top) return Math.max(0, from);
  if (to > top + height) return Math.max(0, to - height);
  return top;
}
