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
  /** Of the gateway that is started: what a coding agent needs. */
  readonly promptCaching: boolean;
  readonly contextShortening: boolean;
  /** Dollars a day; 0: no budget. */
  readonly dailyBudget: number;
  readonly reasoning: Reasoning;
  readonly models: Choice;
  /** How long a prompt may be: a policy of the gateway; empty: the gateway's own. */
  readonly maxInput: string;
  /** The window to assume where none is known; 0: as the gateway says. */
  readonly assumedContext: number;
  readonly completions: {
    readonly enabled: boolean;
    readonly model: string;
    readonly delay: number;
    /** Globs of the files that are never sent. */
    readonly exclude: readonly string[];
    /** Languages that are completed, by id; `*` stands for the others. */
    readonly languages: Readonly<Record<string, boolean>>;
    /** Files that Git ignores are completed, too. */
    readonly includeIgnored: boolean;
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
    promptCaching: of("gateway.promptCaching", true),
    contextShortening: of("gateway.contextShortening", true),
    dailyBudget: amount(of("gateway.dailyBudget", 0)),
    reasoning: of<Reasoning>("reasoning", "thinking"),
    models: {
      show: of<string[]>("models.show", []),
      few: FEW,
      utility: of("models.utility", ""),
      named: [of("commitMessage.model", "")],
      replay: of("models.replay", false),
    },
    maxInput: of("models.maxInput", "").trim(),
    assumedContext: Math.round(amount(of("models.assumedContext", 0))),
    completions: {
      enabled: of("completions.enabled", false),
      model: of("completions.model", ""),
      delay: of("completions.delay", 350),
      exclude: patternsOf(levels("completions.exclude")),
      languages: of<Record<string, boolean>>("completions.languages", {}),
      includeIgnored: of("completions.includeIgnored", false),
    },
    commitMessage: { enabled: of("commitMessage.enabled", false), model: of("commitMessage.model", "") },
  };
}

/** A number that is not negative; whatever else somebody wrote is 0. */
const amount = (value: unknown): number =>
  typeof value === "number" && value > 0 && Number.isFinite(value) ? value : 0;

/** Write one of the user's own settings. */
export async function saveForUser(name: string, value: unknown): Promise<void> {
  await vscode.workspace.getConfiguration(SECTION).update(name, value, vscode.ConfigurationTarget.Global);
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
