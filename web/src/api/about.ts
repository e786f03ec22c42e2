// What this gateway is and has; asked for once, by whoever needs it first.
import { effect, signal } from "@preact/signals";
import { askJson, explain } from "./client.ts";
import { key, keyWanted } from "./key.ts";
import type { About } from "./types.ts";

export const about = signal<About | null>(null);
/** Why it is not known. */
export const aboutError = signal("");

let asked = "\0"; // the key it was last asked with

/** Asks for it, and again whenever another key is given. */
export function startAbout(): void {
  effect(() => {
    if (key.value === asked) return;
    asked = key.value;
    void refreshAbout();
  });
}

export async function refreshAbout(): Promise<void> {
  try {
    const told = await askJson<About>("/inspector/about");
    about.value = told;
    if (told.key === "needed") keyWanted.value = true;
    aboutError.value = "";
  } catch (error) {
    aboutError.value = explain(error);
  }
}
