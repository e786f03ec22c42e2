// A gateway that the extension starts: a daily budget that is told, that stops, and that is lifted; and what agents need.

import assert from "node:assert/strict";
import * as vscode from "vscode";
import type { Suite } from "./suites.ts";
import { ask, control, eye, until, user, VENDOR } from "./tools.ts";

const tip = () => eye<string>("tip");
const said = async (text: RegExp) => (await eye<string[]>("notices")).find((one) => text.test(one));
const answered = async () => assert.match((await ask("mine/tide", [user("Hello")])).text, /The tide is in/);

export const budget: Suite = {
  "what is spent is in the tooltip, to the fraction of a cent": async () => {
    await until("the models", async () =>
      (await vscode.lm.selectChatModels({ vendor: VENDOR })).some(({ id }) => id === "mine/tide"),
    );
    await answered();
    await until("the cost", async () =>
      /Today \$0\.004 of the budget of \$0\.01 are spent \(40%\)\./.test(await tip()),
    );
    assert.doesNotMatch(await eye<string>("status"), /today/);
  },
  "at 80% the status bar and a message say so": async () => {
    await answered();
    await until("the status bar", async () => /\$0\.008 of \$0\.01 today$/.test(await eye<string>("status")));
    await vscode.commands.executeCommand("notifications.showList");
    await until("the message", () => said(/80% of today's budget of \$0\.01 is spent \(\$0\.008\)\./));
  },
  "at 100% a question is refused with one sentence": async () => {
    await answered();
    const before = await control<number>("asked");
    await assert.rejects(ask("mine/tide", [user("One more")]), {
      message:
        "Today's budget of $0.01 is used up ($0.012 spent): run “Penstock: Lift Today's Budget”, raise penstock.gateway.dailyBudget, or wait until midnight.",
    });
    assert.equal(await control<number>("asked"), before, "nobody was asked");
    await vscode.commands.executeCommand("notifications.showList");
    await until("the message", () => said(/today's budget of \$0\.01 is used up/));
  },
  "its button lifts it for today, at once and after a restart of the gateway": async () => {
    await eye("press", "Lift for Today");
    await until("it to be lifted", async () => /It is lifted for today\./.test(await tip()));
    await answered();
    await vscode.commands.executeCommand("penstock.restart");
    await until("an answer", () =>
      answered().then(
        () => true,
        () => undefined,
      ),
    );
  },
  "cache points are set without a word in the configuration": async () => {
    await ask("anthropic/claude-sonnet-4-5", [user("Long words. ".repeat(2_000)), user("Hello")]);
    assert.match(await control<string>("last"), /"cache_control":\s*\{"type":\s*"ephemeral"/);
  },
};
