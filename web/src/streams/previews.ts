// How prompts and answers of kept turns begin: asked for when their rows are shown.
import { signal } from "@preact/signals";
import { askJson } from "../api/client.ts";
import type { Row } from "../api/types.ts";
import { visibleText } from "../ui/visibleText.ts";
import { isRunning } from "./listing.ts";

export interface Preview {
  prompt: string;
  answer: string;
}

const MAX_PREVIEWS = 5_000;
const DELAY = 100; // milliseconds in which rows are collected
const MAX_IDS = 100; // in one request
const NONE: Preview = { prompt: "", answer: "" };

const known = signal<ReadonlyMap<string, Preview>>(new Map());
/** The state in which each turn was asked for. */
const asked = new Map<string, string>();
const wanted = new Set<string>();
let waits = false;

export function previewOf(row: Row): Preview {
  return known.value.get(row.id) ?? NONE;
}

/** Asks for the previews of rows that are shown: once while they run, and once when they have ended. */
export function wantPreviews(rows: readonly (Row | undefined)[]): void {
  for (const row of rows) {
    if (!row?.held) continue;
    const state = isRunning(row) ? row.state : "ended";
    if (asked.get(row.id) === state) continue;
    asked.set(row.id, state);
    wanted.add(row.id);
  }
  if (wanted.size && !waits) askSoon();
}

function askSoon(): void {
  waits = true;
  setTimeout(() => void askPreviews(), DELAY);
}

async function askPreviews(): Promise<void> {
  waits = false;
  const all = [...wanted];
  const ids = all.slice(-MAX_IDS);
  for (const id of all.slice(0, -MAX_IDS)) asked.delete(id); // only passed: they are asked for when they are shown again
  wanted.clear();
  try {
    const found = await askJson<Record<string, Preview>>(`/inspector/previews?ids=${ids.join(",")}`);
    const shown = Object.entries(found).map(
      ([id, { prompt, answer }]) => [id, makePreviewVisible(prompt, answer)] as const,
    );
    keep(new Map([...known.value, ...shown]));
  } catch {
    // The list says that the gateway does not answer. They are asked for again when their rows are drawn again.
    for (const id of ids) asked.delete(id);
  }
}

function makePreviewVisible(prompt: string, answer: string): Preview {
  return { prompt: visibleText(prompt), answer: visibleText(answer) };
}

/** Those that are dropped can be asked for again. */
function keep(next: Map<string, Preview>): void {
  for (const id of [...next.keys()].slice(0, Math.max(0, next.size - MAX_PREVIEWS))) {
    next.delete(id);
    asked.delete(id);
  }
  if (asked.size > 2 * MAX_PREVIEWS) asked.clear();
  known.value = next;
}
