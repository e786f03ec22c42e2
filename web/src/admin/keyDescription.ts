// Keys in words, and a search among them. Pure.
import type { KeyRow } from "./api.ts";

/** What a key may do with the inspector. */
export function describeInspectorAccess({ inspect, inspect_keep }: Pick<KeyRow, "inspect" | "inspect_keep">): string[] {
  return [inspect_keep && "its turns are kept", inspect === "all" && "sees every key's turns"].filter(
    (one) => one !== false,
  );
}

/** Whether a key has every word of a text in one of its values. */
export function matchesKey(row: KeyRow, text: string): boolean {
  const { name, team, tenant, role, models, note } = row;
  const values = [name, team, tenant, role, ...models, note].join("\n").toLowerCase();
  return text
    .toLowerCase()
    .split(/\s+/)
    .every((word) => values.includes(word));
}
