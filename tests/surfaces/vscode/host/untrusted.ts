// A workspace whose settings switch everything on, before and after it is trusted.

import assert from "node:assert/strict";
import * as vscode from "vscode";
import type { Suite } from "./suites.ts";
import { control, eye, until } from "./tools.ts";

const SETTINGS = ["completions.enabled", "completions.model", "commitMessage.enabled", "commitMessage.model"];
const value = (name: string) => vscode.workspace.getConfiguration("penstock").get(name);

async function trigger(text: string): Promise<void> {
  const document = await vscode.workspace.openTextDocument({ content: text });
  const editor = await vscode.window.showTextDocument(document);
  const end = document.lineAt(0).range.end;
  editor.selection = new vscode.Selection(end, end);
  await vscode.commands.executeCommand("editor.action.inlineSuggest.trigger");
}

async function nothingIsSent(): Promise<void> {
  assert.equal(vscode.workspace.isTrusted, false);
  assert.ok(
    await vscode.extensions
      .getExtension("penstock.penstock")
      ?.activate()
      .then(() => true),
  );
  for (const name of [...SETTINGS, "models.utility", "models.show"])
    assert.deepEqual(value(name), vscode.workspace.getConfiguration("penstock").inspect(name)?.defaultValue, name);
  const before = await control<number>("asked");
  await trigger("a gate that nobody trusts ");
  await until("the models", async () => (await vscode.lm.selectChatModels({ vendor: "penstock" })).length > 0);
  // With the user's own consent it works: so the test above could have failed.
  const settings = vscode.workspace.getConfiguration("penstock");
  await settings.update("completions.model", "mistral/codestral-latest", vscode.ConfigurationTarget.Global);
  await settings.update("completions.enabled", true, vscode.ConfigurationTarget.Global);
  await until("the user's own setting to count", async () => {
    await trigger("a gate of the user's ");
    return (await control<number>("asked")) > before;
  });
  const bodies = (await control<string[]>("bodies")).slice(before);
  assert.deepEqual(
    bodies.filter((body) => body.includes("nobody trusts") || body.includes("evil")),
    [],
  );
  assert.ok(bodies.every((body) => JSON.parse(body).model === "codestral-latest"));
  await settings.update("completions.enabled", undefined, vscode.ConfigurationTarget.Global);
  await settings.update("completions.model", undefined, vscode.ConfigurationTarget.Global);
}

export const untrusted: Suite = {
  "the settings of an untrusted folder switch nothing on and choose no model": nothingIsSent,
  "the settings of the folder count once it is trusted": async () => {
    await vscode.commands.executeCommand("workbench.trust.manage");
    await eye("trust");
    await until("the trust", async () => vscode.workspace.isTrusted);
    await until("the folder's setting", async () => value("completions.enabled") === true);
    const before = await control<number>("asked");
    await until("a completion", async () => {
      await trigger("a trusted gate ");
      return (await control<number>("asked")) > before;
    });
    assert.equal(JSON.parse(await control<string>("last")).model, "evil-1");
  },
};

export const untrustedFile: Suite = {
  "the settings of an untrusted workspace file, and of its folder, switch nothing on": nothingIsSent,
};
