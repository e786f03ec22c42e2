// The gateway's routes for providers and their keys. Only a gateway that this extension has started has them.

import { Failure, failureOf, GATEWAY } from "../errors.ts";
import { refusal } from "./client.ts";
import { type Address, type Ask, json } from "./http.ts";

const CHECK = 45_000; // the gateway waits 20 seconds for a provider

/** Facts about a model that its server does not tell, as `penstock.toml` has them. */
export interface ModelFacts {
  readonly context?: number;
  readonly max_output?: number;
  readonly vision?: boolean;
  readonly tools?: boolean;
  readonly prices?: { readonly input?: number; readonly output?: number };
}

/** A provider with its keys, or an OpenAI-compatible server by its URL, as it is kept and handed over. */
export interface ProviderEntry {
  readonly name: string;
  readonly keys: readonly string[];
  readonly base_url?: string;
  /** Scheme and host that the keys are for. */
  readonly origin?: string;
  readonly title?: string;
  readonly settings?: Readonly<Record<string, string>>;
  readonly models?: Readonly<Record<string, ModelFacts>>;
}

export interface ProviderSetting {
  readonly name: string;
  readonly about: string;
  readonly default: string;
  readonly required: boolean;
  readonly variable: string;
}

/** A provider as the gateway describes it. */
export interface ProviderRow {
  readonly name: string;
  readonly label: string;
  readonly keys_url?: string;
  readonly needs_key?: boolean;
  readonly key_form?: string;
  readonly local?: boolean;
  readonly own: boolean;
  readonly configured: boolean;
  readonly has_key?: boolean;
  readonly source: "" | "editor" | "configuration" | "environment" | "stored";
  readonly variable?: string;
  readonly keys?: number;
  readonly base_url?: string;
  readonly origin?: string;
  readonly settings?: readonly ProviderSetting[];
  readonly problem?: string;
}

export interface CheckRequest {
  readonly provider: string;
  readonly key?: string;
  readonly base_url?: string;
  readonly settings?: Readonly<Record<string, string>>;
}

export interface CheckResult {
  readonly ok: boolean;
  readonly kind: string;
  readonly message: string;
  readonly models?: readonly string[];
}

export interface GatewayStatus {
  readonly revision: number;
  readonly config: { readonly path: string; readonly error: string; readonly restart_needed: readonly string[] };
}

export class ProviderRoutes {
  readonly #address: Address;

  constructor(address: Address) {
    this.#address = address;
  }

  async providers(): Promise<readonly ProviderRow[]> {
    return (await this.#ask<{ providers: readonly ProviderRow[] }>("vscode/providers")).providers;
  }

  /** Hand over all that a window has. Gives what is not used, and why, by provider. */
  async put(window: string, providers: readonly ProviderEntry[]): Promise<Readonly<Record<string, string>>> {
    const body = JSON.stringify({ window, providers });
    const { problems } = await this.#ask<{ problems?: Record<string, string> }>("vscode/keys", { method: "PUT", body });
    return problems ?? {};
  }

  /** The window is closed. */
  async remove(window: string): Promise<void> {
    await this.#ask(`vscode/keys?window=${encodeURIComponent(window)}`, { method: "DELETE" });
  }

  /** One request that proves a key; without one, the key that the gateway has. */
  async check(request: CheckRequest, signal?: AbortSignal): Promise<CheckResult> {
    const body = JSON.stringify(request);
    const options: Ask = { method: "POST", body, patience: CHECK, ...(signal && { signal }) };
    return await this.#ask<CheckResult>("vscode/providers/check", options);
  }

  async status(): Promise<GatewayStatus> {
    return await this.#ask<GatewayStatus>("vscode/status");
  }

  async #ask<T>(path: string, options: Ask = {}): Promise<T> {
    const { status, value } = await json(this.#address, path, options);
    if (status === 404) throw new Failure(`${GATEWAY} takes no keys from the editor: restart it.`, "not-found");
    if (status !== 200) throw failureOf(refusal(status, value), GATEWAY);
    return value as T;
  }
}
