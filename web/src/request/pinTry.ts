// Which try is shown while more of them come. Pure.

/** Tabs that show the request of one try. */
const TRY_TABS = new Set(["upstream", "canonical"]);

/** The number of the try that stays under the reader; null: the last one is shown. A tab without a try pins none. */
export function pinTry(pinned: number | null, tab: string, tries: number): number | null {
  if (!TRY_TABS.has(tab)) return null;
  return pinned ?? (tries > 0 ? tries - 1 : null);
}
