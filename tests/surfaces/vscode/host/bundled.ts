// A package for one platform, on a machine without Python, uv and network: the gateway inside the extension is started.

import assert from "node:assert/strict";
import * as vscode from "vscode";
import type { Suite } from "./suites.ts";
import { ask, control, eye, until, user, VENDOR } from "./tools.ts";

interface Running {
  readonly pid: number;
  readonly started?: string;
  readonly command: string;
}

const running = () => control<Running>("running");
const MODEL = "tiny/gpt-4";

export const bundled: Suite = {
  // The first start is slow: see test_editor.py.
  "a start that takes long says what it does, and then how many models there are": async () => {
    const listing = vscode.lm.selectChatModels({ vendor: VENDOR });
    const seen = (text: RegExp) =>
      until(String(text), async () => {
        // The list closes when it is empty.
        await vscode.commands.executeCommand("notifications.showList");
        return (await eye<string[]>("notices")).find((one) => text.test(one));
      });
    await seen(/Penstock: Starting…/);
    await control("go");
    await listing;
    await seen(/Penstock is ready: \d+ models?\./);
  },
  "the gateway inside the extension is started, and answers": async () => {
    const models = await until("the models", async () => {
      const found = await vscode.lm.selectChatModels({ vendor: VENDOR });
      return found.length ? found : undefined;
    });
    assert.ok(models.some(({ id }) => id === MODEL));
    assert.equal((await ask(MODEL, [user("Hello")])).text, "Understood.");
    const { command, started } = await running();
    assert.match(command, /bundle\/gateway\/penstock\S* vscode-launch /);
    assert.match(started ?? "", /^\d+$/);
  },
  "it is killed, and brought back": async () => {
    const { pid } = await running();
    process.kill(pid, "SIGKILL");
    await until("an answer", () => ask(MODEL, [user("Again")]).catch(() => undefined));
    assert.notEqual((await running()).pid, pid);
  },
  "a restart by hand stops it": async () => {
    const { pid } = await running();
    await vscode.commands.executeCommand("penstock.restart");
    assert.notEqual((await running()).pid, pid);
    assert.equal(await control<boolean>("ended", pid), true);
  },
};
