// What a row of the audit log has changed, as lines, and the whole log as a file. Pure.
import type { AuditRow, RecordChange } from "./api.ts";

/** Values that every new record has: they come last. */
const PLAIN = new Set(["models", "hash", "created", "added"]);

/** `limits.day_cost: 5 → 10`, one line for each value that differs. */
export function describeChange({ before, after }: RecordChange): string[] {
  const [old, now] = [flatten(before ?? {}), flatten(after ?? {})];
  const names = [...new Set([...old.keys(), ...now.keys()])];
  return [...names.filter((name) => !PLAIN.has(name)), ...names.filter((name) => PLAIN.has(name))]
    .filter((name) => old.get(name) !== now.get(name))
    .map((name) => {
      if (!before) return `${name}: ${now.get(name)}`;
      if (!after) return `${name}: ${old.get(name)}`;
      return `${name}: ${old.get(name) ?? "–"} → ${now.get(name) ?? "–"}`;
    });
}

/** The values of a record by their path, as texts. */
function flatten(record: Record<string, unknown>, path = ""): Map<string, string> {
  const found = new Map<string, string>();
  for (const [name, value] of Object.entries(record)) {
    const isTable = typeof value === "object" && value !== null && !Array.isArray(value);
    if (isTable)
      for (const [inner, text] of flatten(value as Record<string, unknown>, `${path}${name}.`)) found.set(inner, text);
    else found.set(`${path}${name}`, describeValue(value));
  }
  return found;
}

function describeValue(value: unknown): string {
  if (Array.isArray(value) && value.every((one) => typeof one === "string")) return value.join(", ") || "none";
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** Rows as JSON Lines, the oldest first, as the file of the audit log has them. */
export function auditFile(rows: AuditRow[]): string {
  return rows
    .toReversed()
    .map((row) => `${JSON.stringify(row)}\n`)
    .join("");
}
