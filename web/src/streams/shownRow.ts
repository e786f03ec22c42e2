// A row as the list shows it: names and messages come from clients and providers, and may hold characters that hide or turn
// around what stands beside them.
import type { Row } from "../api/types.ts";
import { visibleText } from "../ui/visibleText.ts";

const TEXTS = [
  "client", "agent", "route", "key", "asked", "model", "provider", "engine", "finish", "fault", "message", "tools",
] as const; // biome-ignore format: a list of names

const known = new WeakMap<Row, Row>();

/** The row with all its texts made visible: to be shown, not to be sent. */
export function shownRow(row: Row): Row {
  const found = known.get(row);
  if (found) return found;
  const made = { ...row, decisions: row.decisions.map(visibleText) };
  for (const name of TEXTS) if (typeof made[name] === "string") made[name] = visibleText(made[name]);
  known.set(row, made);
  return made;
}
