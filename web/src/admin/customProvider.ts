// A custom provider, as the form has it and as the admin API takes it.
import type { ProviderRow } from "./api.ts";

export interface CustomProviderDraft {
  name: string;
  base_url: string;
  like: string;
  title: string;
  key: string;
  /** One model per line. */
  models: string;
}

const DEFAULT_LIKE = "openai-compatible";

/** The draft of a custom provider that exists, or of a new one. */
export function customProviderDraft(row: ProviderRow | null): CustomProviderDraft {
  if (!row) return { name: "", base_url: "", like: DEFAULT_LIKE, title: "", key: "", models: "" };
  const title = row.title === row.name ? "" : row.title;
  return { name: row.name, base_url: row.base_url, like: row.like, title, key: "", models: row.models.join("\n") };
}

/** The body of the request that stores a draft; the name is a part of it only if it is new. */
export function customProviderBody(
  draft: CustomProviderDraft,
  isNew: boolean,
  check: boolean,
): Record<string, unknown> {
  const { name, base_url, like, title, key } = draft;
  const models = draft.models
    .split("\n")
    .map((line) => line.trim())
    .filter(Boolean);
  return { ...(isNew ? { name: name.trim() } : {}), base_url, like, title, key, models, check };
}

/** Whether two addresses have the same scheme, host and port: a stored key is for these. */
export function sameOrigin(one: string, other: string): boolean {
  const first = parse(one);
  return first !== null && first.origin === parse(other)?.origin;
}

function parse(address: string): URL | null {
  try {
    return new URL(address.trim());
  } catch {
    return null;
  }
}

/** What the form says of an exposed address; the gateway says the same once it is stored. */
export const EXPOSURE_WARNING =
  "The address begins with http://: the key and all prompts and answers are sent unencrypted.";
// Loopback and private networks of IPv4 and IPv6, and names without a dot.
const PRIVATE = [
  /^127\./,
  /^10\./,
  /^192\.168\./,
  /^172\.(1[6-9]|2\d|3[01])\./,
  /^\[::1\]$/,
  /^\[f[cd][0-9a-f]{2}:/,
  /^\[fe[89ab][0-9a-f]:/,
  /^[^.:]+$/,
];
const PRIVATE_NAMES = [".local", ".localhost", ".lan", ".internal", ".home.arpa"];

/**
 * Whether an address is reached without encryption, through a network that is not known to be private. The gateway has
 * the same rule (`describe_exposure`); tests/gateway/inspector/exposed_addresses.json holds cases of both.
 */
export function isExposed(address: string): boolean {
  const url = parse(address);
  if (url?.protocol !== "http:") return false;
  const hostname = url.hostname.replace(/\.$/, "");
  return !PRIVATE.some((form) => form.test(hostname)) && !PRIVATE_NAMES.some((end) => hostname.endsWith(end));
}
