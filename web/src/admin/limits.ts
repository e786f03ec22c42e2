// Limits as people read them and as a form writes them. Pure.
import { formatCost, formatCount } from "../ui/format.ts";
import type { KeyRow, Limits, LimitUsage, Role } from "./api.ts";

export const WINDOWS = [
  { prefix: "", label: "a minute", seconds: 60 },
  { prefix: "day_", label: "a day", seconds: 86_400 },
  { prefix: "week_", label: "a week", seconds: 604_800 },
  { prefix: "month_", label: "a month", seconds: 2_592_000 },
  { prefix: "total_", label: "in total", seconds: 0 },
] as const;

export const KINDS = [
  { name: "requests", label: "Requests" },
  { name: "tokens", label: "Tokens" },
  { name: "cost", label: "Dollars" },
] as const;

/** The name of a limit in the API; empty where there is none: cost has no limit a minute. */
export function limitName(prefix: string, kind: string): string {
  return prefix === "" && kind === "cost" ? "" : prefix + kind;
}

/** `day_cost` → `Dollars a day`. */
export function limitLabel(name: string): string {
  for (const { prefix, label } of WINDOWS) {
    const kind = KINDS.find((one) => limitName(prefix, one.name) === name);
    if (kind) return `${kind.label} ${label}`;
  }
  return name === "concurrent" ? "Requests at once" : name;
}

/** All names, in the order of the form. */
export const LIMIT_NAMES = [
  ...WINDOWS.flatMap(({ prefix }) => KINDS.map(({ name }) => limitName(prefix, name)).filter((name) => name !== "")),
  "concurrent",
];

/** `$4.00 of $20.00 a day`. */
export function describeUsage(one: LimitUsage): string {
  if (one.kind === "concurrent") return `${one.used} of ${one.most} at once`;
  const show = one.kind === "cost" ? formatCost : formatCount;
  const window = WINDOWS.find(({ seconds }) => seconds === one.window)?.label ?? `in ${one.window} s`;
  const unit = one.kind === "cost" ? "" : ` ${one.kind}`;
  return `${show(one.used)} of ${show(one.most)}${unit} ${window}`;
}

/** How much is used, from 0 to 1. */
export function share(one: LimitUsage): number {
  return one.most > 0 ? Math.min(1, Math.max(0, one.used / one.most)) : 0;
}

/** What a form holds: texts, as they were typed. */
export interface Draft {
  name: string;
  team: string;
  role: Role;
  tenant: string;
  /** The inspector keeps its turns. */
  inspect_keep: boolean;
  /** Whose turns it sees in the inspector. */
  inspect: "own" | "all";
  models: string;
  expires: string;
  max_output: string;
  note: string;
  limits: Record<string, string>;
}

/** Limits as texts of a form. */
export function limitTexts(limits: Limits | null): Record<string, string> {
  return Object.fromEntries(LIMIT_NAMES.map((name) => [name, limits?.[name] ? `${limits[name]}` : ""]));
}

export function draftOf(row: KeyRow | null): Draft {
  const limits = limitTexts(row?.limits ?? null);
  return {
    name: row?.name ?? "",
    team: row?.team ?? "",
    role: row?.role ?? "user",
    tenant: row?.tenant ?? "",
    inspect_keep: row?.inspect_keep ?? false,
    inspect: row?.inspect ?? "own",
    models: (row?.models ?? ["*"]).join(", "),
    expires: row?.expires ? localMoment(new Date(row.expires)) : "",
    max_output: row?.max_output ? `${row.max_output}` : "",
    note: row?.note ?? "",
    limits,
  };
}

/** A moment as `datetime-local` writes it. */
export function localMoment(date: Date): string {
  const local = new Date(date.getTime() - date.getTimezoneOffset() * 60_000);
  return local.toISOString().slice(0, 16);
}

/** The fields to send: those of a draft that differ from what is there. Empty is the default, which is null. */
export function changes(draft: Draft, before: Draft): Record<string, unknown> {
  const fields: Record<string, unknown> = {};
  const add = (name: keyof Draft, value: unknown) => {
    if (draft[name] !== before[name]) fields[name] = value;
  };
  add("team", draft.team || null);
  add("role", draft.role);
  add("tenant", draft.tenant.trim() || null);
  add("inspect_keep", draft.inspect_keep);
  add("inspect", draft.inspect);
  add("models", splitModels(draft.models));
  add("expires", draft.expires ? new Date(draft.expires).toISOString() : null);
  add("max_output", numberOf(draft.max_output));
  add("note", draft.note || null);
  return addLimits(fields, draft.limits, before.limits);
}

/** Adds the limits that differ from what is there. */
function addLimits(
  fields: Record<string, unknown>,
  limits: Record<string, string>,
  before: Record<string, string>,
): Record<string, unknown> {
  const changed = LIMIT_NAMES.filter((name) => limits[name] !== before[name]);
  if (changed.length === 0) return fields;
  return { ...fields, limits: Object.fromEntries(changed.map((name) => [name, numberOf(limits[name] ?? "")])) };
}

/** What a form of a team or of the organisation holds. */
export interface TeamDraft {
  name: string;
  models: string;
  note: string;
  limits: Record<string, string>;
}

export function teamDraftOf(
  row: { name?: string; models: string[]; note?: string; limits: Limits | null } | null,
): TeamDraft {
  return {
    name: row?.name ?? "",
    models: (row?.models ?? ["*"]).join(", "),
    note: row?.note ?? "",
    limits: limitTexts(row?.limits ?? null),
  };
}

export function teamChanges(draft: TeamDraft, before: TeamDraft): Record<string, unknown> {
  const fields: Record<string, unknown> = {};
  if (draft.models !== before.models) fields.models = splitModels(draft.models);
  if (draft.note !== before.note) fields.note = draft.note || null;
  return addLimits(fields, draft.limits, before.limits);
}

function splitModels(text: string): string[] | null {
  const models = text.split(",").map((one) => one.trim());
  const found = models.filter((one) => one !== "");
  return found.length > 0 ? found : null;
}

function numberOf(text: string): number | null {
  return text.trim() === "" ? null : Number(text);
}
