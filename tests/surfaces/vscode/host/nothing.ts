// Neither a gateway nor anything to start one with: said once, with a button, and asked again without harm.

import assert from "node:assert/strict";
import * as vscode from "vscode";
import type { Suite } from "./suites.ts";
import { eye, model, taken, until, user, VENDOR } from "./tools.ts";

export const nothing: Suite = {
  "there is one entry, however often one asks, and its answer says why and what to do": async () => {
    for (let times = 0; times < 3; times++) {
      const found = await vscode.lm.selectChatModels({ vendor: VENDOR });
      assert.deepEqual(
        found.map(({ id }) => id),
        ["add-provider"],
      );
    }
    const why = /^The gateway cannot be started: no Python was found; .*Penstock: Check Set-up/;
    await until("the reason", async () => {
      const asked = await model("add-provider").then((one) => one.sendRequest([user("Hello?")]));
      return taken(asked).then(
        () => undefined,
        (error: Error) => why.test(error.message),
      );
    });
  },
  "the set-up check says why, with a fix": async () => {
    const report = await vscode.commands.executeCommand<string>("penstock.checkSetup");
    assert.match(
      report,
      /✗ Gateway: The gateway cannot be started: no Python was found; install Python 3\.11 or newer, or uv/,
    );
    assert.match(report, /- Fix: Run “Penstock: Restart Gateway”, or set penstock\.gateway\.url\./);
    assert.match(report, /✗ Models: none without a gateway/);
  },
  "the message waits in the list, once": async () => {
    // Toasts come only when the editor has come to rest; the one who looks at the page is outside, and looks three times a second.
    await vscode.commands.executeCommand("notifications.showList");
    await new Promise((wake) => setTimeout(wake, 2_000));
  },
  "its button opens the walkthrough": async () => {
    await vscode.commands.executeCommand("notifications.showList");
    await eye("press", "Show How");
    await until(
      "its tab",
      () =>
        vscode.window.tabGroups.all
          .flatMap(({ tabs }) => tabs)
          .some(({ label }) => /Walkthrough|Welcome|Penstock/.test(label)) || undefined,
    );
  },
};
