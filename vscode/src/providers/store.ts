// Providers and their keys, in the editor's secret storage: one secret with all of them, which all windows share.

import type { ProviderEntry } from "../gateway/provider-routes.ts";

const SECRET = "penstock.providers";
const NAME = /^[a-z0-9][a-z0-9._-]{0,63}$/;

/** The part of `vscode.SecretStorage` that is used. */
export interface Secrets {
  get(key: string): Thenable<string | undefined>;
  store(key: string, value: string): Thenable<void>;
  delete(key: string): Thenable<void>;
  onDidChange(run: (change: { readonly key: string }) => unknown): { dispose(): unknown };
}

export class ProviderStore {
  readonly #secrets: Secrets;
  #writing: Promise<unknown> = Promise.resolve();

  constructor(secrets: Secrets) {
    this.#secrets = secrets;
  }

  /** All providers. A secret that cannot be read counts as none. */
  async list(): Promise<readonly ProviderEntry[]> {
    try {
      const rows: unknown = JSON.parse((await this.#secrets.get(SECRET)) ?? "[]");
      return Array.isArray(rows) ? rows.filter(isEntry) : [];
    } catch {
      return [];
    }
  }

  async find(name: string): Promise<ProviderEntry | undefined> {
    return (await this.list()).find((entry) => entry.name === name);
  }

  /** Add a provider, or replace the one of that name. */
  save(entry: ProviderEntry): Promise<void> {
    return this.#change((rows) => [...rows.filter(({ name }) => name !== entry.name), entry]);
  }

  remove(name: string): Promise<void> {
    return this.#change((rows) => rows.filter((row) => row.name !== name));
  }

  /** Keys were added, changed or removed, in this window or in another. */
  onDidChange(run: () => unknown): { dispose(): unknown } {
    return this.#secrets.onDidChange(({ key }) => key === SECRET && run());
  }

  #change(edit: (rows: readonly ProviderEntry[]) => readonly ProviderEntry[]): Promise<void> {
    const next = this.#writing
      .catch(() => {})
      .then(async () => {
        const rows = edit(await this.list());
        if (rows.length) await this.#secrets.store(SECRET, JSON.stringify(rows));
        else await this.#secrets.delete(SECRET);
      });
    this.#writing = next;
    return next;
  }
}

function isEntry(row: unknown): row is ProviderEntry {
  const { name, keys } = (row ?? {}) as Partial<ProviderEntry>;
  return typeof name === "string" && Array.isArray(keys) && keys.every((key) => typeof key === "string");
}

/** An entry with one more key; a key that it has already is not added twice. */
export function withKey(entry: ProviderEntry | undefined, name: string, key: string): ProviderEntry {
  const keys = [...(entry?.keys ?? []), ...(key ? [key] : [])];
  return { ...entry, name, keys: [...new Set(keys)] };
}

/** A key as it may be shown: its end, if the rest is long enough to stay a secret. */
export function maskedKey(key: string): string {
  return key.length >= 12 ? `…${key.slice(-4)}` : "…";
}

/** A name for an own server, from its address: `http://llama.lan:8080/v1` is `llama.lan-8080`. */
export function serverName(url: string, taken: readonly string[]): string {
  const { hostname, port } = new URL(url);
  const plain = [hostname.replace(/[^a-z0-9.-]/gi, "").toLowerCase() || "server", port].filter(Boolean).join("-");
  const name = NAME.test(plain) ? plain : "server";
  if (!taken.includes(name)) return name;
  return `${name}-${[2, 3, 4, 5, 6, 7, 8, 9].find((number) => !taken.includes(`${name}-${number}`)) ?? Date.now()}`;
}

/** Why a text is not the name of an own server; empty: it is. */
export function nameProblem(name: string, taken: readonly string[]): string {
  if (!NAME.test(name)) return "Use lower-case letters, digits, dots and hyphens.";
  return taken.includes(name) ? "This name is taken." : "";
}

/** Why a text is not the address of a server; empty: it is. */
export function urlProblem(text: string): string {
  const url = text.trim();
  if (!/^https?:\/\//i.test(url) || !URL.canParse(url)) return "Write it like http://127.0.0.1:8080/v1.";
  const { username, password } = new URL(url);
  return username || password ? "Leave the password out: the key is asked for next." : "";
}
