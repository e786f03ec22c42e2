// Keys that are configured in VS Code's own list of models ("Add Models"): one configuration group is one provider with a key.
// VS Code asks once without a configuration, then once for each group. What it no longer asks for is gone.

import type { ProviderEntry } from "../gateway/provider-routes.ts";

/** The configuration of a group, as package.json declares it. */
export interface GroupConfiguration {
  readonly provider?: string;
  readonly apiKey?: string;
}

export const SETTLED = 1_500; // milliseconds after which all groups were asked for

export class ProviderGroups {
  readonly #groups = new Map<string, { readonly entry: ProviderEntry; round: number }>();
  readonly #changed: () => unknown;
  readonly #settled: number;
  #round = 0;
  #timer: NodeJS.Timeout | undefined;

  /** `changed` is called when a group is gone. */
  constructor(changed: () => unknown, settled = SETTLED) {
    this.#changed = changed;
    this.#settled = settled;
  }

  /** What the groups give, several keys of one provider together. */
  get entries(): readonly ProviderEntry[] {
    const byName = Map.groupBy([...this.#groups.values()], ({ entry }) => entry.name);
    return [...byName].map(([name, rows]) => ({
      name,
      keys: [...new Set(rows.flatMap(({ entry }) => entry.keys))],
    }));
  }

  /** The providers whose models are listed in a group, and so not among those of Penstock itself. */
  get providers(): ReadonlySet<string> {
    return new Set([...this.#groups.values()].map(({ entry }) => entry.name));
  }

  /** The host asks without a configuration: all groups will be asked for next. */
  begin(): void {
    this.#round++;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#settle(), this.#settled);
    this.#timer.unref();
  }

  /** The host asks for a group. Says whether its key is new, and whether this group lists the models of its provider. */
  add(group: string, { provider = "", apiKey = "" }: GroupConfiguration): { changed: boolean; lists: boolean } {
    const key = apiKey.trim();
    const entry: ProviderEntry = { name: provider, keys: key ? [key] : [] };
    const known = this.#groups.get(group)?.entry;
    this.#groups.set(group, { entry, round: this.#round });
    const [first] = [...this.#groups].find(([, row]) => row.entry.name === provider) ?? [];
    return { changed: JSON.stringify(known) !== JSON.stringify(entry), lists: first === group };
  }

  dispose(): void {
    clearTimeout(this.#timer);
  }

  #settle(): void {
    const gone = [...this.#groups].filter(([, { round }]) => round !== this.#round);
    for (const [name] of gone) this.#groups.delete(name);
    if (gone.length) this.#changed();
  }
}

/** Entries of the store and of the groups together. */
export function joined(stored: readonly ProviderEntry[], grouped: readonly ProviderEntry[]): readonly ProviderEntry[] {
  const rows = new Map(stored.map((entry) => [entry.name, entry] as const));
  for (const entry of grouped) {
    const known = rows.get(entry.name);
    rows.set(entry.name, known ? { ...known, keys: [...new Set([...known.keys, ...entry.keys])] } : entry);
  }
  return [...rows.values()];
}
