// What stands together on the screen: neighbouring texts of one item are read as one, choices stand apart. Pure.
import type { Part, TextPart } from "./parts.ts";

export interface TextGroup {
  kind: "texts";
  parts: TextPart[];
}

export type Group = TextGroup | (TextPart & { kind: "refusal" }) | Exclude<Part, TextPart>;

export interface Choice {
  number: number;
  groups: Group[];
}

/** Parts by choice, in the order of choices; those that belong to no choice stand with the first. */
export function byChoice(parts: readonly Part[]): Choice[] {
  const choices = new Map<number, Group[]>();
  for (const part of parts) {
    const number = "choice" in part ? part.choice : 0;
    const groups = choices.get(number) ?? [];
    if (groups.length === 0) choices.set(number, groups);
    place(groups, part);
  }
  return [...choices].sort(([a], [b]) => a - b).map(([number, groups]) => ({ number, groups }));
}

function place(groups: Group[], part: Part): void {
  const last = groups.at(-1);
  if (part.kind !== "text") groups.push(part as Group);
  else if (last?.kind === "texts" && last.parts[0]?.item === part.item) last.parts.push(part);
  else groups.push({ kind: "texts", parts: [part] });
}
