// The usage view, a request in the inspector, the page of the set-up, and the walkthrough: what a person sees of them.

import assert from "node:assert/strict";
import * as vscode from "vscode";
import type { Suite } from "./suites.ts";
import { ask, control, eye, until, user } from "./tools.ts";

/** Words in one of the page's frames. */
const frame = (words: string) =>
  until(`“${words}” in a frame`, async () => (await eye<string[]>("frames")).find((text) => text.includes(words)));

const theme = (name: string) =>
  vscode.workspace.getConfiguration("workbench").update("colorTheme", name, vscode.ConfigurationTarget.Global);

export const views: Suite = {
  "usage by model and day, in light and dark": async () => {
    await ask("anthropic/claude-sonnet-4-5", [user("How high is the water?")]);
    const text = await until("the journal", async () => {
      const shown = await vscode.commands.executeCommand<string>("penstock.showUsage");
      return /^Today: [1-9]/.test(shown) ? shown : undefined;
    });
    assert.match(text, /claude-sonnet-4-5: [\d,]+ tokens, \$\d/);
    const drawn = await frame("By model");
    for (const words of [
      "Today",
      "30 days",
      "Tokens by day",
      "Cost by day",
      "claude-sonnet-4-5",
      "unknown",
      "% cached",
    ])
      assert.ok(drawn.includes(words), `${words} is missing: ${drawn}`);
    assert.equal(/\bnone\b|\$0\.0000/.test(drawn), false, drawn);
    await vscode.commands.executeCommand("workbench.action.closeAuxiliaryBar");
    await eye("shot", "usage");
    await theme("Default Dark Modern");
    await eye("settle");
    await eye("shot", "usage-dark");
    await theme("Default Light Modern");
    await eye("settle");
  },
  "the last request is shown in the inspector, inside the editor": async () => {
    await vscode.commands.executeCommand("penstock.inspectLastRequest");
    await frame("It is 3.2 m high, and falling.");
    await eye("settle");
    await eye("shot", "inspect");
    const key = (await eye<string[]>("frames")).filter((text) => text.includes("This gateway wants a key"));
    assert.deepEqual(key, []);
    await vscode.commands.executeCommand("workbench.action.closeAllEditors");
  },
  "the last requests can be chosen from": async () => {
    await ask("anthropic/claude-sonnet-4-5", [user("And how cold is it?")]);
    void vscode.commands.executeCommand("penstock.inspectRequest");
    const rows = await eye<string>("rows");
    assert.match(rows, /And how cold is it\?[\s\S]*How high is the water\?/);
    await eye("key", "Enter");
    await frame("It is 3.2 m high, and falling.");
    await vscode.commands.executeCommand("workbench.action.closeAllEditors");
  },
  "of a request before a restart of the gateway there is its row in the journal": async () => {
    await control("restart");
    await until("the gateway", () => control<boolean>("up"));
    await vscode.commands.executeCommand("penstock.inspectLastRequest");
    await frame("there is only its row in the journal");
    await vscode.commands.executeCommand("workbench.action.closeAllEditors");
  },
  "every provider is tested, and a bad key is a failure with a button": async () => {
    const report = await vscode.commands.executeCommand<string>("penstock.checkSetup");
    assert.match(report, /✓ Anthropic: anthropic\/claude-sonnet-4-5 answered/);
    assert.match(report, /✗ Mistral: Mistral refused the key/);
    const page = await frame("Penstock: set-up");
    assert.match(page, /\d of \d+ checks failed/);
    await vscode.commands.executeCommand("notifications.clearAll");
    await eye("shot", "check-page");
    await eye("click", "Copy Report");
    await until("the clipboard", async () => (await vscode.env.clipboard.readText()) === report);
    await vscode.commands.executeCommand("workbench.action.closeAllEditors");
  },
  "the walkthrough can be read beside the chat": async () => {
    await vscode.commands.executeCommand("workbench.action.chat.open");
    await vscode.commands.executeCommand("workbench.action.openWalkthrough", "penstock.penstock#setup", false);
    const text = await until("the walkthrough", async () => {
      const shown = await eye<string>("walkthrough");
      return shown.includes("Add a provider") ? shown : undefined;
    });
    for (const words of ["Set Up Penstock", "paste its key", "Add Provider", "If something does not work"])
      assert.ok(text.includes(words), text);
    await eye("settle");
    await eye("shot", "walkthrough");
    assert.deepEqual(await eye<string[]>("hidden"), [], "no button is out of sight");
  },
};
