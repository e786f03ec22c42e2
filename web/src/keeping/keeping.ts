// What the gateway keeps of turns, and the switches for it.
import { signal } from "@preact/signals";
import { askJson, explain } from "../api/client.ts";
import { formatSentence } from "../ui/format.ts";

export interface Keeping {
  paused: boolean;
  /** Turns of this caller are kept. */
  keeps: boolean;
  /** Turns of all callers are kept. */
  all: boolean;
  /** This caller may use the switches. */
  may_switch: boolean;
  memory: { turns: number; bytes: number; size: number };
  disk: {
    on: boolean;
    possible: boolean;
    size: number;
    days: number;
    turns?: number;
    bytes?: number;
    /** Turns on disk that could not be read. */
    damaged?: number;
    problem?: string;
  };
}

export const keeping = signal<Keeping | null>(null);
export const keepingError = signal("");

export const readKeeping = () => change("/inspector/keeping");

export const switchKeeping = (fields: { disk?: boolean; paused?: boolean }) =>
  change("/inspector/keeping", { method: "POST", body: JSON.stringify(fields) });

async function change(path: string, options?: RequestInit): Promise<void> {
  try {
    keeping.value = await askJson<Keeping>(path, options);
    keepingError.value = "";
  } catch (error) {
    keepingError.value = explain(error);
  }
}

const PENDING =
  "Another process of the gateway does not answer. It deletes its turns before it shows any of them again.";
const NOT_ON_DISK = "One process of the gateway could not delete its turns on disk: ";

/**
 * `pending`: processes that have not confirmed; `error`: why one of them deleted its turns in memory only; `remains`:
 * where deleted text still is on disk, and why.
 */
interface Deletion {
  deleted: number;
  pending?: number[];
  error?: string;
  remains?: string;
}

/** Deletes the content of one turn, or of all that this caller sees. Gives why it failed; empty if it did not. */
export async function deleteTurns(id = ""): Promise<string> {
  let problem = "";
  try {
    const path = `/inspector/turns${id ? `/${encodeURIComponent(id)}` : ""}`;
    const { pending, error, remains } = await askJson<Deletion>(path, { method: "DELETE" });
    if (error) problem = NOT_ON_DISK + error;
    else if (pending) problem = PENDING;
    else if (remains) problem = formatSentence(remains);
  } catch (error) {
    problem = explain(error);
  }
  await readKeeping();
  if (problem) keepingError.value = problem;
  return problem;
}

const MB = 1024 * 1024;

/** `3.1 of 32 MB`. */
export function share(bytes: number, size: number): string {
  return `${(bytes / MB).toFixed(1)} of ${Math.round(size / MB)} MB`;
}

/** One line for the foot of the list. */
export function summary(now: Keeping): string {
  if (now.paused) return "Keeping is paused";
  if (now.disk.on && now.disk.problem) return "Turns cannot be kept on disk";
  if (now.disk.on) return "Turns are kept on disk";
  if (now.keeps) return "The newest turns are kept in memory";
  return "Turns are kept while this page is open";
}
