// Which turns are shown: by state, and by words. `model:opus` looks in one field, a bare word in all. Pure.
import type { Row, State } from "../api/types.ts";

export const SETS = ["all", "running", "finished", "broken"] as const;
export type StateSet = (typeof SETS)[number];

const SET_OF: Record<State, StateSet> = {
  open: "running",
  streaming: "running",
  finish: "finished",
  fault: "broken",
  cancelled: "broken",
  refused: "broken",
};

export function setOf(row: Row): StateSet {
  return SET_OF[row.state] ?? "finished";
}

type Field = (row: Row) => string;
const FIELDS: Record<string, Field> = {
  client: (row) => row.client,
  route: (row) => row.route,
  model: (row) => `${row.model} ${row.asked}`,
  provider: (row) => row.provider,
  engine: (row) => `${row.engine} ${row.decisions.join(" ")}`,
  state: (row) => row.state,
  fault: (row) => `${row.fault} ${row.message}`,
  key: (row) => row.key,
  protocol: (row) => `${row.protocol} ${row.upstream}`,
  id: (row) => row.id,
};

interface Word {
  field: Field;
  text: string;
}

const everything: Field = (row) =>
  Object.values(FIELDS)
    .map((field) => field(row))
    .join("\n");

export function wordsOf(query: string): Word[] {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  return words.map((word) => {
    const colon = word.indexOf(":");
    const name = word.slice(0, Math.max(colon, 0));
    const field = Object.hasOwn(FIELDS, name) ? FIELDS[name] : undefined;
    return field ? { field, text: word.slice(colon + 1) } : { field: everything, text: word };
  });
}

export function matching(rows: Row[], query: string): Row[] {
  const words = wordsOf(query);
  if (!words.length) return rows;
  return rows.filter((row) => words.every(({ field, text }) => field(row).toLowerCase().includes(text)));
}

export function counted(rows: Row[]): Record<StateSet, number> {
  const counts = { all: rows.length, running: 0, finished: 0, broken: 0 };
  for (const row of rows) counts[setOf(row)]++;
  return counts;
}
