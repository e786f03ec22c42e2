// What all commands for providers need: the store, and the gateway that takes the keys.

import type { ProviderEntry, ProviderRoutes, ProviderRow } from "../gateway/provider-routes.ts";
import type { ProviderStore } from "./store.ts";

export interface ProviderSession {
  readonly store: ProviderStore;
  /** The routes of the gateway that this extension has started. Rejects with the reason if another one is in use. */
  readonly routes: () => Promise<ProviderRoutes>;
  /** Hand over what is stored now, and have the models listed anew. */
  readonly apply: () => Promise<void>;
}

/** Keep an entry and hand it over at once. The address that its keys are for is noted. */
export async function keep(session: ProviderSession, entry: ProviderEntry, row?: ProviderRow): Promise<void> {
  // Where the user gives the address, or a part of it, the gateway binds the keys to that.
  const origin = entry.base_url || entry.settings ? undefined : row?.origin;
  const { origin: _, ...rest } = entry;
  await session.store.save(origin ? { ...rest, origin } : rest);
  await session.apply();
}
