// The admin API, and the key it is asked with: of this tab only, forgotten by `signOut` or with the tab.
import { signal } from "@preact/signals";
import { Refusal } from "../api/client.ts";
import { key, session } from "../api/key.ts";

export type Role = "user" | "viewer" | "admin";

export interface Caller {
  name: string;
  role: Role;
  /** Of a gateway without keys: only providers and the configuration are theirs. */
  owner?: boolean;
}

/** Amounts by name: `day_cost`. What is absent or 0 is no limit. */
export type Limits = Record<string, number>;

export interface KeyRow {
  name: string;
  models: string[];
  tenant: string;
  team: string;
  role: Role;
  /** Whose turns it sees in the inspector: those of its tenant, or all. */
  inspect: "own" | "all";
  /** The inspector keeps its turns. */
  inspect_keep: boolean;
  limits: Limits | null;
  max_output: number;
  expires: string | null;
  expired: boolean;
  note: string;
  created: string;
  previous: { hash: string; expires: string }[];
  source: "store" | "configuration";
  etag: string;
}

export interface NewKey extends KeyRow {
  secret: string;
}

export interface TeamRow {
  name: string;
  models: string[];
  limits: Limits | null;
  note: string;
  keys: number;
  source: "store" | "configuration";
  etag: string;
}

export interface Organisation {
  models: string[];
  limits: Limits | null;
  source: "store" | "configuration";
  etag: string;
}

/** A provider, never with its key. `ending`: the last characters of a stored key. */
export interface ProviderRow {
  name: string;
  title: string;
  keys_url: string;
  key_needed: boolean;
  has_key: boolean;
  source: "stored" | "configuration" | "environment" | "editor" | "";
  variable: string;
  stored: boolean;
  used: boolean;
  ending: string;
  added: string;
  /** The scheme, host and port that the key is sent to. */
  origin: string;
  /** The whole address of the API. */
  address: string;
  problem: string;
  /** What is not safe. */
  warning: string;
  /** A custom provider; the fields below are empty for others. */
  custom: boolean;
  base_url: string;
  like: string;
  models: string[];
  etag: string;
}

/** The list of providers. `templates`: what a custom provider can behave like. `error`: which file is not used, and why. */
export interface ProviderList {
  data: ProviderRow[];
  templates: { name: string; title: string }[];
  error: string;
}

export interface ProviderTest {
  ok: boolean;
  kind: string;
  message: string;
  seconds: number;
  /** The model that can be asked, if the kind is `no-list`. */
  model: string;
}

export interface ConfigCheck {
  path: string;
  error: string;
  restart_needed: string[];
  problems: { setting: string; line: number; message: string }[];
}

export interface LimitUsage {
  kind: "requests" | "tokens" | "cost" | "concurrent";
  window: number | null;
  used: number;
  most: number;
  resets: number | null;
}

export interface ScopeUsage {
  scope: "organisation" | "team" | "key";
  name: string;
  limits: LimitUsage[];
}

export interface AuditRow {
  id: number;
  /** Seconds since the epoch. */
  time: number;
  actor: string;
  action: string;
  changes: RecordChange[];
}

/** A changed record: none before if it is new, none after if it was removed. */
export interface RecordChange {
  kind: string;
  name: string;
  before?: Record<string, unknown>;
  after?: Record<string, unknown>;
}

/** What keys or teams have used in a period. */
export interface UsageReport {
  data: UsageRow[];
}

export interface UsageRow {
  name: string;
  requests: number;
  refused: number;
  faults: number;
  input: number;
  output: number;
  cost: number;
  unpriced: number;
}

export interface Page<T> {
  data: T[];
  next: string | number | null;
}

/** A refusal; `field` names the value that is wrong. */
export class AdminError extends Refusal {
  readonly field: string;
  constructor(status: number, message: string, field: string) {
    super(status, message);
    this.field = field;
  }
}

const NAME = "penstock-admin-key";

/** Who is signed in: undefined before anybody was asked, null for nobody. */
export const caller = signal<Caller | null | undefined>(undefined);
/** Why nobody is signed in. */
export const signInError = signal("");
let secret = "";

function stored(): string {
  try {
    return sessionStorage.getItem(NAME) ?? "";
  } catch {
    return "";
  }
}

function store(value: string): void {
  secret = value;
  try {
    if (value) sessionStorage.setItem(NAME, value);
    else sessionStorage.removeItem(NAME);
  } catch {
    // kept in memory only
  }
}

/** Signs in with the key of an earlier visit in this tab, or with the key of the page. */
export async function resume(): Promise<void> {
  const known = stored();
  const candidate = known || key.value;
  if (candidate || session.value) await signIn(candidate, known !== "");
  else caller.value = null;
}

/** Signs in. `tell`: says why not; a key that the page has for its streams may simply have no role. */
export async function signIn(candidate: string, tell = true): Promise<void> {
  secret = candidate;
  try {
    const found = await askAdmin<Caller>("me");
    store(candidate);
    signInError.value = "";
    caller.value = found;
  } catch (error) {
    store("");
    const noRole = error instanceof AdminError && error.status === 403;
    signInError.value = tell
      ? describe(error)
      : noRole
        ? `You use this page with a key that may not manage: ${error.message}`
        : "";
    caller.value = null;
  }
}

export function signOut(why = ""): void {
  store("");
  signInError.value = why;
  caller.value = null;
}

export async function askAdmin<T>(path: string, method = "GET", body?: unknown, etag = ""): Promise<T> {
  const headers = new Headers();
  if (secret) headers.set("authorization", `Bearer ${secret}`);
  else if (session.value) headers.set("x-penstock-session-token", session.value);
  if (etag) headers.set("if-match", `"${etag}"`);
  if (body !== undefined) headers.set("content-type", "application/json");
  const options = { method, headers, body: body === undefined ? null : JSON.stringify(body) };
  const response = await fetch(`/admin/${path}`, { ...options, cache: "no-store", credentials: "omit" });
  if (response.ok) return (response.status === 204 ? undefined : await response.json()) as T;
  const found = await refusal(response);
  if (response.status === 401 && caller.value) signOut("The key is not valid any more. Sign in again.");
  if (response.status === 403 && caller.value && path !== "me") void resume(); // the role may be another one now
  throw found;
}

async function refusal(response: Response): Promise<AdminError> {
  try {
    const { error } = await response.json();
    return new AdminError(response.status, String(error.message), String(error.field ?? ""));
  } catch {
    return new AdminError(response.status, `The gateway said ${response.status} ${response.statusText}`.trim(), "");
  }
}

export function describe(error: unknown): string {
  if (error instanceof TypeError) return "The gateway does not answer.";
  return error instanceof Error ? error.message : String(error);
}

const PAGES = 100;

/** All rows of a list, in pages of 1,000. Rejects if there are more than a page can show. */
export async function askAll<T>(path: string): Promise<T[]> {
  const rows: T[] = [];
  let after = "";
  for (let page = 0; page < PAGES; page += 1) {
    const found = await askAdmin<Page<T>>(`${path}?limit=1000${after}`);
    rows.push(...found.data);
    if (found.next === null) return rows;
    after = `&after=${encodeURIComponent(found.next)}`;
  }
  throw new Error(
    `There are more than ${rows.length.toLocaleString("en")} ${path}: use the admin API or the command line.`,
  );
}

/** The path of one team. */
export function teamPath(name: string): string {
  return `teams/${encodeURIComponent(name)}`;
}

/** The path of one provider. */
export function providerPath(name: string): string {
  return `providers/${encodeURIComponent(name)}`;
}

/** The path of one custom provider. */
export function customProviderPath(name: string): string {
  return `custom-providers/${encodeURIComponent(name)}`;
}

/** The path of one key. */
export function keyPath(name: string): string {
  return `keys/${encodeURIComponent(name)}`;
}
