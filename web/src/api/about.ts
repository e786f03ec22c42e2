// What this gateway is and has; asked for once, when it is first needed.
import { batch, effect, signal } from "@preact/signals";
import { askJson, explain } from "./client.ts";
import { key, keyWanted, session, sessionWanted } from "./key.ts";
import type { About } from "./types.ts";

export const about = signal<About | null>(null);
/** Why it is not known. */
export const aboutError = signal("");

let asked = "\0"; // the key and the session it was last asked with

/** Asks for it, and again whenever another key or session is given. */
export function startAbout(): void {
  effect(() => {
    const now = `${key.value}\n${session.value}`;
    if (now === asked) return;
    asked = now;
    void refreshAbout();
  });
}

export async function refreshAbout(): Promise<void> {
  const [sentKey, sentSession] = [key.peek(), session.peek()];
  try {
    const answer = await askJson<About>("/inspector/about");
    if (key.peek() !== sentKey || session.peek() !== sentSession) return; // a newer request asks
    batch(() => {
      about.value = answer; // with what it asks for: nothing may ask for turns in between
      if (answer.key === "needed") keyWanted.value = true;
      if (answer.key === "session") sessionWanted.value = true;
      aboutError.value = "";
    });
  } catch (error) {
    aboutError.value = explain(error);
  }
}
