// Which columns the list has, how wide they are and how it is sorted: remembered in this browser. Pure but for storage.
import { signal } from "@preact/signals";

const NAME = "penstock.columns";
export const MIN_WIDTH = 48;
export const MAX_WIDTH = 900;

export interface ColumnSettings {
  /** Chosen columns by id; null: those that fit. */
  shown: string[] | null;
  /** Widths in pixels of columns that were resized. */
  widths: Record<string, number>;
}

const DEFAULTS: ColumnSettings = { shown: null, widths: {} };

/** Reads settings that somebody may have changed by hand. */
export function readSettings(text: string | null, known: readonly string[]): ColumnSettings {
  try {
    const found = JSON.parse(text ?? "null");
    const shown = Array.isArray(found?.shown) ? known.filter((id) => found.shown.includes(id)) : null;
    const widths = Object.entries<unknown>(found?.widths ?? {}).filter(([id]) => known.includes(id));
    const valid = widths.filter((entry): entry is [string, number] => typeof entry[1] === "number");
    return {
      shown: shown?.length ? shown : null,
      widths: Object.fromEntries(valid.map(([id, width]) => [id, limitWidth(width)])),
    };
  } catch {
    return DEFAULTS;
  }
}

export function limitWidth(width: number): number {
  return Math.round(Math.min(MAX_WIDTH, Math.max(MIN_WIDTH, width)));
}

export const settings = signal<ColumnSettings>(DEFAULTS);

export function loadSettings(known: readonly string[]): void {
  try {
    settings.value = readSettings(localStorage.getItem(NAME), known);
  } catch {
    // no storage: the defaults do
  }
}

export function keepSettings(next: ColumnSettings): void {
  settings.value = next;
  try {
    localStorage.setItem(NAME, JSON.stringify(next));
  } catch {
    // kept until the page is closed
  }
}
