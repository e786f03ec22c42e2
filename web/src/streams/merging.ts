// The list of turns as it grows: newer words about a turn replace older ones. Pure.
import type { Row } from "../api/types.ts";

/** More than anybody scrolls through; older ones are asked for again when they are wanted. */
export const MOST_ROWS = 5_000;

/** Newest first. The old list is not changed. */
export function merged(rows: Row[], news: Row[]): Row[] {
  if (!news.length) return rows;
  const byId = new Map(news.map((row) => [row.id, row]));
  const kept = rows.map((row) => {
    const newer = byId.get(row.id);
    byId.delete(row.id);
    return newer ?? row;
  });
  if (byId.size) {
    kept.push(...byId.values());
    kept.sort((a, b) => b.time - a.time || (a.id < b.id ? 1 : -1));
  }
  return kept.slice(0, MOST_ROWS);
}
