// Providers and their keys, as a person adds, changes and removes them: by the boxes and lists of the editor.

import assert from "node:assert/strict";
import * as vscode from "vscode";
import type { Suite } from "./suites.ts";
import { ask, control, eye, until, user, VENDOR } from "./tools.ts";

const KEYED = "penstock-provider";
const ids = async (vendor = VENDOR) => (await vscode.lm.selectChatModels({ vendor })).map(({ id }) => id);
const said = (text: RegExp) => async () => {
  await vscode.commands.executeCommand("notifications.showList");
  return (await eye<string[]>("notices")).find((one) => text.test(one));
};
async function box(text: RegExp): Promise<string> {
  let shown = "";
  const look = async () => {
    shown = await eye<string>("box");
    return text.test(shown) ? shown : undefined;
  };
  return until(() => `the box ${text}, but saw: ${shown}`, look);
}
/** Ask, and give the key that the provider was sent. */
async function keyOf(id: string, vendor = VENDOR): Promise<string> {
  await control("forget");
  assert.equal((await ask(id, [user("Hello")], {}, vendor)).text, "Understood.");
  return control<string>("sent");
}

export const providers: Suite = {
  "the first start says what is missing, once, and leads to it": async () => {
    await ids();
    await until("the message", said(/no provider has a key yet|there is no key yet/));
    await eye("press", "Add Provider");
    const shown = await box(/Search for a provider|OpenAI-compatible server/);
    assert.match(shown, /Add Provider/);
    await eye("shot", "providers-list");
    await eye("type", "anthrop");
    assert.match(await box(/Anthropic/), /platform\.claude\.com/);
    await eye("key", "Escape");
  },
  "a server by its URL: a wrong key is refused in the box, the right one is taken": async () => {
    const { url, first, wrong } = await control<{ url: string; first: string; wrong: string }>("keys");
    void vscode.commands.executeCommand("penstock.addProvider");
    await box(/OpenAI-compatible server/);
    await eye("enter", "compatible");
    await box(/chat\/completions is added to/);
    await eye("enter", url);
    await box(/A name for the server/);
    await eye("enter", "lab");
    await box(/Its key/);
    await eye("enter", wrong);
    const refused = await box(/Incorrect API key/);
    assert.equal(refused.includes(wrong), false, refused);
    await eye("shot", "providers-refused");
    await eye("enter", first);
    await box(/Pick a model to set its window/);
    await eye("enter", "tide-1");
    await box(/Context window/);
    await eye("enter", "Context");
    await box(/prompt and answer together/);
    await eye("enter", "64k");
    await box(/Context window\s*64,000/);
    await eye("enter", "Save");
    await box(/window 64,000/);
    await eye("enter", "Done");
    await until("its models", async () => (await ids()).includes("lab/tide-1"));
    assert.equal(await keyOf("lab/tide-1"), first);
    const [tide] = await vscode.lm.selectChatModels({ vendor: VENDOR, id: "lab/tide-1" });
    assert.ok(tide && tide.maxInputTokens <= 64_000, String(tide?.maxInputTokens));
  },
  "a key that is changed counts with the next question": async () => {
    const { second } = await control<{ second: string }>("keys");
    void vscode.commands.executeCommand("penstock.manageProviders");
    await box(/Pick a provider to change it/);
    await eye("enter", "lab");
    await box(/Change Key/);
    await eye("shot", "providers-manage");
    await eye("enter", "Change Key");
    await box(/The new key/);
    await eye("enter", second);
    await box(/Pick a provider to change it/);
    await eye("key", "Escape");
    assert.equal(await keyOf("lab/tide-1"), second);
  },
  "a gateway that is started anew has the keys": async () => {
    const { second } = await control<{ second: string }>("keys");
    await vscode.commands.executeCommand("penstock.restart");
    assert.equal(await keyOf("lab/tide-1"), second);
  },
  "keys are where they belong, and nowhere else": async () => {
    assert.deepEqual(await control("leaks"), []);
  },
  "the configuration file acts without a restart": async () => {
    const { pid } = await control<{ pid: number }>("running");
    await control("configure", '[aliases]\nquick = "lab/tide-2"\n');
    await until("the alias", async () => (await ids()).includes("quick"));
    await control("configure", "[serve]\nprot = 1\n");
    await until("the message", said(/the configuration was not reloaded.*serve\.prot: no such key/s));
    assert.ok((await ids()).includes("quick"));
    assert.equal((await control<{ pid: number }>("running")).pid, pid);
  },
  "a provider is removed": async () => {
    void vscode.commands.executeCommand("penstock.manageProviders");
    await box(/Pick a provider to change it/);
    await eye("enter", "lab");
    await box(/Remove/);
    await eye("enter", "Remove");
    await box(/Its keys are deleted/);
    await eye("enter", "Remove");
    await box(/Pick a provider to change it/);
    await eye("key", "Escape");
    await until("its models to go", async () => !(await ids()).includes("lab/tide-1"));
    await assert.rejects(ask("lab/tide-1", [user("?")]));
  },
  "the editor's own “Add Models” takes a provider and its key, and lists its models once": async () => {
    const { first } = await control<{ first: string }>("keys");
    await eye("addModels", "Penstock: Provider");
    await box(/name/i);
    await eye("shot", "providers-native-name");
    await eye("key", "Enter");
    await box(/Search for a provider/);
    await eye("shot", "providers-native-list");
    await eye("enter", "Databricks");
    await box(/The key of the provider/);
    await eye("enter", first);
    const id = await until("its models", async () => (await ids(KEYED)).find((one) => one.startsWith("databricks/")));
    await until("them to be listed once", async () => !(await ids()).some((one) => one.startsWith("databricks/")));
    assert.equal(await keyOf(id, KEYED), first);
    await eye("shot", "providers-native");
    assert.deepEqual(await control("leaks"), []);
  },
};
