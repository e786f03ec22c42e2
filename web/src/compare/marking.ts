// Two turns are chosen to be compared: "Compare with…" of a turn, or "Compare" of the list, and then rows of the list.
import { signal } from "@preact/signals";
import { go } from "../router.ts";
import { compareAddress } from "./address.ts";

export interface Marked {
  id: string;
  label: string;
}

/** Whether rows of the list are chosen and not opened. */
export const choosing = signal(false);
/** The first turn of the comparison; null: none is chosen yet. */
export const first = signal<Marked | null>(null);

/** Chooses the first turn, and shows the list to choose the second one from. */
export function chooseFirst(id: string, label: string): void {
  choosing.value = true;
  first.value = { id, label };
  go("streams");
}

export function startChoosing(): void {
  choosing.value = true;
  first.value = null;
}

export function stopChoosing(): void {
  choosing.value = false;
  first.value = null;
}

/** A row of the list: the first one is marked, or not marked any more; the second one opens the comparison. */
export function markTurn(id: string, label: string): void {
  const marked = first.value;
  choosing.value = true;
  if (!marked) first.value = { id, label };
  else if (marked.id === id) first.value = null;
  else {
    stopChoosing();
    location.hash = compareAddress(marked.id, id);
  }
}

/** Opens a turn of the list, or marks it while two are chosen. */
export function openOrMark(id: string, label: string): void {
  if (choosing.value) markTurn(id, label);
  else go("turn", id);
}
