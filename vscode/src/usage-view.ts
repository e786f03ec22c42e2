// The usage view in the side bar. It asks the gateway when it is shown, after each reply, and on request.

import { randomBytes } from "node:crypto";
import * as vscode from "vscode";
import { said } from "./errors.ts";
import type { Usage } from "./extras/usage.ts";
import { type UsageState, usagePage } from "./extras/usagePage.ts";
import { Client } from "./gateway/client.ts";
import { type Address, Unreachable } from "./gateway/http.ts";
import { SECTION } from "./settings.ts";

export const USAGE_VIEW = `${SECTION}.usage`;
const PERIODS = [7, 30, 90];
const CHOSEN = "penstock.usage.period";
const RETRY = 10_000;
const SOON = 1_500; // the journal is written a moment after the reply
const COMMANDS = [`${SECTION}.checkSetup`, "workbench.action.chat.open"];

export class UsageView implements vscode.WebviewViewProvider {
  readonly #address: () => Promise<Address>;
  readonly #kept: vscode.Memento;
  #view: vscode.WebviewView | undefined;
  #soon: NodeJS.Timeout | undefined;

  constructor(address: () => Promise<Address>, kept: vscode.Memento) {
    this.#address = address;
    this.#kept = kept;
  }

  resolveWebviewView(view: vscode.WebviewView): void {
    this.#view = view;
    view.webview.options = { enableScripts: false, localResourceRoots: [], enableCommandUris: COMMANDS };
    view.onDidDispose(() => {
      this.#view = undefined;
    });
    view.onDidChangeVisibility(() => view.visible && this.refresh().catch(() => undefined));
    this.#draw({});
    void this.refresh().catch(() => undefined);
  }

  /** Ask anew; gives what was used, also where the view is not shown. */
  async refresh(): Promise<Usage> {
    const period = this.#period;
    try {
      const usage = (await new Client(await this.#address()).usage(period)) as Usage;
      this.#draw({ usage });
      return usage;
    } catch (error) {
      const gone = error instanceof Unreachable;
      this.#draw({ problem: gone ? "The gateway does not answer just now." : said(error) });
      this.#later(RETRY);
      throw error;
    }
  }

  /** A reply has ended: what it cost is known soon. */
  replied(): void {
    this.#later(SOON);
  }

  #later(milliseconds: number): void {
    clearTimeout(this.#soon);
    const refresh = () => this.#view?.visible && void this.refresh().catch(() => undefined);
    this.#soon = setTimeout(refresh, milliseconds);
  }

  async choosePeriod(): Promise<void> {
    const rows = PERIODS.map((days) => ({ label: `${days} days`, days, picked: days === this.#period }));
    const picked = await vscode.window.showQuickPick(rows, { title: "Usage of the last" });
    if (!picked) return;
    await this.#kept.update(CHOSEN, picked.days);
    await this.refresh();
  }

  register(): vscode.Disposable {
    return vscode.Disposable.from(
      vscode.window.registerWebviewViewProvider(USAGE_VIEW, this),
      vscode.commands.registerCommand(`${SECTION}.refreshUsage`, () => this.refresh().then(undefined, () => undefined)),
      vscode.commands.registerCommand(`${SECTION}.chooseUsagePeriod`, () => this.choosePeriod()),
      { dispose: () => clearTimeout(this.#soon) },
    );
  }

  get #period(): number {
    return this.#kept.get<number>(CHOSEN) ?? 30;
  }

  #draw(state: Pick<UsageState, "usage" | "problem">): void {
    if (!this.#view) return;
    const today = new Date();
    const day = [today.getFullYear(), today.getMonth() + 1, today.getDate()].map((one) => String(one).padStart(2, "0"));
    const nonce = randomBytes(16).toString("base64");
    this.#view.webview.html = usagePage({ ...state, period: this.#period, today: day.join("-") }, nonce);
  }
}
