import assert from "node:assert/strict";
import { test } from "node:test";
import { Failure } from "../src/errors.ts";
import { plainText, setupAnswer, setupEntry } from "../src/setup-entry.ts";

test("without a provider there is one entry, whose answer names the command that adds one", () => {
  const entry = setupEntry("", undefined, true);
  assert.equal(entry.name, "Add a provider…");
  assert.match(entry.tooltip ?? "", /^No provider is set up yet\./);
  assert.equal(entry.capabilities.toolCalling, true, "an agent hides models that call no tools");
  assert.deepEqual(setupAnswer(undefined, true), {
    text: "No provider is set up yet: run [Penstock: Add Provider](command:penstock.addProvider) to add one, with its key.",
    command: "penstock.addProvider",
    title: "Add Provider",
  });
});

test("where Markdown is not read the command is quoted", () => {
  const { text } = setupAnswer(undefined, true);
  assert.equal(plainText(text), "No provider is set up yet: run “Penstock: Add Provider” to add one, with its key.");
});

test("a list that cannot be had is explained in the entry and in its answer", () => {
  const why = new Failure("The gateway cannot be started: no Python was found; install uv.", "network");
  const entry = setupEntry("@host:1", why, false);
  assert.equal(entry.id, "add-provider@host:1");
  assert.ok(entry.tooltip?.startsWith(why.message), entry.tooltip);
  assert.equal(
    setupAnswer(why, false).text,
    "The gateway cannot be started: no Python was found; install uv ([Penstock: Check Set-up](command:penstock.checkSetup)).",
  );
  assert.equal(setupAnswer(new Failure("The gateway refused the key.", "auth"), false).command, "penstock.setKey");
});

test("while the gateway is being started the entry says so", () => {
  const entry = setupEntry("", undefined, false);
  assert.equal(entry.name, "Penstock is starting…");
  assert.match(setupAnswer(undefined, false).text, /^The gateway is being started: ask again in a moment \(/);
});
