// The settings as values. What decides where requests go, or what is run, is read from the user's own settings only (`scope` in
// package.json); what switches sending on, or names a model, from a workspace only once it is trusted (`policy.ts`).

import * as vscode from "vscode";
import type { Reasoning } from "./chat/reply.ts";
import { type Choice, FEW } from "./models.ts";
import { type Levels, patternsOf, trustedValue } from "./policy.ts";

export const SECTION = "penstock";
const KEY = "penstock.gateway.key";

export interface Settings {
  readonly url: string;
  readonly start: boolean;
  readonly python: string;
  readonly config: string;
  readonly arguments: readonly string[];
  readonly reasoning: Reasoning;
  readonly models: Choice;
  /** How long a prompt may be: a policy of the gateway; empty: the gateway's own. */
  readonly maxInput: string;
  readonly completions: {
    readonly enabled: boolean;
    readonly model: string;
    readonly delay: number;
    /** Globs of the files that are never sent. */
    readonly exclude: readonly string[];
  };
  readonly commitMessage: { readonly enabled: boolean; readonly model: string };
}

export function settings(): Settings {
  const from = vscode.workspace.getConfiguration(SECTION);
  const levels = (name: string): Levels => from.inspect(name) ?? {};
  const of = <T>(name: string, otherwise: T): T =>
    trustedValue(name, from.get<T>(name), levels(name), vscode.workspace.isTrusted) ?? otherwise;
  return {
    url: of("gateway.url", "").trim(),
    start: of("gateway.start", true),
    python: of("python", ""),
    config: of("gateway.config", ""),
    arguments: of<string[]>("gateway.arguments", []),
    reasoning: of<Reasoning>("reasoning", "thinking"),
    models: {
      show: of<string[]>("models.show", []),
      few: FEW,
      utility: of("models.utility", ""),
      named: [of("commitMessage.model", "")],
    },
    maxInput: of("models.maxInput", "").trim(),
    completions: {
      enabled: of("completions.enabled", false),
      model: of("completions.model", ""),
      delay: of("completions.delay", 250),
      exclude: patternsOf(levels("completions.exclude")),
    },
    commitMessage: { enabled: of("commitMessage.enabled", false), model: of("commitMessage.model", "") },
  };
}

/** The key of the gateway in the settings: kept where secrets are kept. */
export class GatewayKey {
  readonly #secrets: vscode.SecretStorage;

  constructor(secrets: vscode.SecretStorage) {
    this.#secrets = secrets;
  }

  async get(): Promise<string> {
    return (await this.#secrets.get(KEY)) ?? "";
  }

  /** It was set or taken away, here or in another window. */
  onDidChange(run: () => void): vscode.Disposable {
    return this.#secrets.onDidChange(({ key }) => key === KEY && run());
  }

  async set(key: string): Promise<void> {
    if (key) await this.#secrets.store(KEY, key);
    else await this.#secrets.delete(KEY);
  }
}
