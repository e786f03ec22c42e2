// The daily budget in VS Code: handed to the gateway, shown in the status bar, told at 80% and at the end, lifted for today.

import * as vscode from "vscode";
import { said } from "./errors.ts";
import { asBudget, type Budget, budgetLevel, budgetNotice } from "./extras/budget.ts";
import type { Client } from "./gateway/client.ts";
import { SECTION, type Settings } from "./settings.ts";

const LIFTED = "budget.lifted"; // the day for which it is lifted
const TOLD = "budget.told"; // the day and level that were last told
const LIFT = "Lift for Today";
const CHANGE = "Change Budget";

export interface BudgetOptions {
  /** The gateway that the extension started, while it runs: only that one takes a budget. */
  readonly client: () => Client | undefined;
  readonly settings: () => Settings;
  readonly memory: vscode.Memento;
  readonly shown: (budget: Budget | undefined) => unknown;
  readonly log: (line: string) => void;
}

export class DailyBudget {
  readonly #options: BudgetOptions;
  /** Levels whose message nobody has answered yet. */
  readonly #open = new Set<string>();

  constructor(options: BudgetOptions) {
    this.#options = options;
  }

  /** Tell the gateway what the settings say. */
  async apply(): Promise<void> {
    const { client, settings, memory } = this.#options;
    const lifted = memory.get<string>(LIFTED, "");
    await this.#take(() => client()?.setBudget(settings().dailyBudget, lifted));
  }

  /** A question was answered or refused: see what is spent. */
  async look(): Promise<void> {
    if (this.#options.settings().dailyBudget) await this.#take(() => this.#options.client()?.budget());
  }

  /** Let the budget not count until midnight. */
  async lift(): Promise<void> {
    const client = this.#options.client();
    const budget = client && asBudget(await client.budget());
    if (!budget?.limit) {
      const none = "Penstock: there is no daily budget in the gateway that the extension starts.";
      void vscode.window.showInformationMessage(none);
      return;
    }
    await this.#options.memory.update(LIFTED, budget.day);
    await this.apply();
    void vscode.window.showInformationMessage("Penstock: the budget is lifted until midnight.");
  }

  async #take(ask: () => Promise<unknown> | undefined): Promise<void> {
    try {
      const budget = asBudget(await ask());
      this.#options.shown(budget?.limit ? budget : undefined);
      if (budget) await this.#tell(budget);
    } catch (error) {
      this.#options.log(`the daily budget: ${said(error)}`);
    }
  }

  /** Each level once a day, in one of the windows; what is refused is told until somebody has answered. */
  async #tell(budget: Budget): Promise<void> {
    const level = budgetLevel(budget);
    const { memory } = this.#options;
    const now = `${budget.day} ${level} ${budget.limit}`;
    if (!level || this.#open.has(level) || (level === "near" && memory.get(TOLD) === now)) return;
    await memory.update(TOLD, now);
    this.#open.add(level);
    const tell = level === "over" ? vscode.window.showErrorMessage : vscode.window.showWarningMessage;
    void tell(budgetNotice(budget), ...(level === "over" ? [LIFT, CHANGE] : [CHANGE])).then((answer) => {
      this.#open.delete(level);
      if (answer === LIFT) void vscode.commands.executeCommand(`${SECTION}.liftBudget`);
      if (answer === CHANGE)
        void vscode.commands.executeCommand("workbench.action.openSettings", `${SECTION}.gateway.dailyBudget`);
    });
  }
}
