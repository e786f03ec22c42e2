// How prompts and answers of kept turns begin: asked for when their rows are shown.
import { signal } from "@preact/signals";
import { askJson } from "../api/client.ts";
import type { Row } from "../api/types.ts";
import { isRunning } from "./listing.ts";

export interface Preview {
  prompt: string;
  answer: string;
}

const MAX_PREVIEWS = 5_000;
const DELAY = 100; // milliseconds in which rows are collected
const NONE: Preview = { prompt: "", answer: "" };

const known = signal<ReadonlyMap<string, Preview>>(new Map());
const asked = new Set<string>();
const wanted = new Set<string>();
let waits = false;

export function previewOf(row: Row): Preview {
  return known.value.get(row.id) ?? NONE;
}

/** Asks for the previews of rows that are shown: once while they run, and once when they have ended. */
export function wantPreviews(rows: readonly (Row | undefined)[]): void {
  for (const row of rows) {
    if (!row?.held) continue;
    const name = `${row.id} ${isRunning(row) ? row.state : "ended"}`;
    if (asked.has(name)) continue;
    asked.add(name);
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
  const ids = [...wanted].slice(0, 100);
  for (const id of ids) wanted.delete(id);
  if (wanted.size) askSoon();
  try {
    const found = await askJson<Record<string, Preview>>(`/inspector/previews?ids=${ids.join(",")}`);
    const next = new Map([...known.value, ...Object.entries(found)]);
    known.value = next.size > MAX_PREVIEWS ? new Map([...next].slice(-MAX_PREVIEWS)) : next;
  } catch {
    // the list says that the gateway does not answer; the rows do without
  }
}
