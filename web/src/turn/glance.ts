// As much of a text as one line can show. Pure.
import { visibleText } from "../ui/visibleText.ts";

/** More than a line can hold: what is beyond is never looked at. */
export const GLANCE = 240;

/** Line ends, tabs and hidden characters made visible, and no more than a glance of it. */
export function glance(text: string): string {
  return visibleText(text.slice(0, GLANCE).replace(/\r?\n/g, "⏎").replace(/\t/g, "⇥"));
}
