import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import * as fs from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import { test } from "node:test";
import { Completions, debounce, enabledFor, Filler, fimBody, placeOf, trimCompletion } from "../src/extras/fim.ts";
import { FimModels } from "../src/extras/fimModels.ts";
import { IgnoredFiles, isIgnoreFile } from "../src/extras/ignored.ts";
import { Client } from "../src/gateway/client.ts";
import { gateway } from "./host.ts";

test("a completion is found again after some of it was typed", () => {
  const known = new Completions();
  known.put("m", placeOf("const a = ;", 10), "compute(1)");
  assert.equal(known.get("m", placeOf("const a = ;", 10)), "compute(1)");
  assert.equal(known.get("m", placeOf("const a = comp;", 14)), "ute(1)");
  assert.equal(known.get("m", placeOf("const a = xyz;", 13)), undefined);
  assert.equal(known.get("m", placeOf("const a = compute(1);", 20)), undefined, "nothing is left of it");
  assert.equal(known.get("m", placeOf("const a = ; // other", 10)), undefined);
  assert.equal(known.get("other model", placeOf("const a = ;", 10)), undefined);
  known.put("m", placeOf("done();", 7), "");
  assert.equal(known.get("m", placeOf("done();", 7)), "", "that there is nothing to add is known, too");
  assert.equal(known.get("m", placeOf("done();x", 8)), undefined);
  for (let number = 0; number < 100; number++) known.put("m", placeOf(`x${number}`, 2), "y");
  assert.equal(known.get("m", placeOf("const a = ;", 10)), undefined, "it is bounded");
});

test("typing on cancels the wait", async () => {
  const controller = new AbortController();
  const waiting = debounce(60_000, controller.signal);
  controller.abort();
  assert.equal(await waiting, false);
  assert.equal(await debounce(1, new AbortController().signal), true);
});

test("somebody who types on ends what is being asked, and what was given once is not asked for again", async () => {
  const [first, second] = [new AbortController(), new AbortController()];
  const answers = [() => second.abort(), () => '{"choices":[{"text":"compute(1)"}]}'];
  const server = await gateway((_, response) => {
    const answer = answers.shift()?.();
    if (answer) response.end(answer);
  });
  const failures: unknown[] = [];
  const latencies: number[] = [];
  const client = new Client({ url: server.url, key: "" });
  const filler = new Filler((body, signal) => client.fill(body, signal), {
    failed: (error) => failures.push(error),
    answered: (milliseconds) => latencies.push(milliseconds),
  });
  const place = placeOf("const a = ;", 10);
  const fill = (signal: AbortSignal, delay = 1) => filler.fill(place, { model: "acme/fill", delay }, signal);
  const waiting = fill(first.signal, 60_000);
  first.abort();
  assert.equal(await waiting, "");
  assert.equal(server.seen.length, 0, "nobody is asked while somebody types");
  assert.equal(await fill(second.signal), "");
  await server.seen[0]?.closed;
  assert.equal(await fill(new AbortController().signal), "compute(1)");
  assert.equal(await fill(new AbortController().signal), "compute(1)");
  assert.equal(server.seen.length, 2);
  assert.deepEqual(JSON.parse(server.seen[1]?.body ?? ""), {
    model: "acme/fill",
    prompt: "const a = ",
    suffix: ";",
    max_tokens: 256,
    temperature: 0.1,
    stream: false,
  });
  assert.equal(server.seen[1]?.path, "/v1/fim/completions");
  assert.equal(latencies.length, 1, "the time of the one that was answered");
  await server.close();
  const other = placeOf("let b = ;", 8);
  assert.equal(await filler.fill(other, { model: "acme/fill", delay: 1 }, new AbortController().signal), "");
  assert.equal(failures.length, 1, "what goes wrong is for the log");
  assert.equal(await filler.fill(other, { model: "", delay: 1 }, new AbortController().signal), "");
});

/** The place of `|` in a text. */
const at = (text: string) => placeOf(text.replace("|", ""), text.indexOf("|"));

test("a line with text after the cursor gets one line, any other a block", () => {
  const lines = (text: string) => (fimBody("m", at(text)) as { stop?: string[] }).stop === undefined;
  assert.equal(lines("a = |"), true);
  assert.equal(lines("f(|);\nnext"), true);
  assert.equal(lines("a = | + b"), false);
  assert.deepEqual(fimBody("m", at("a = | + b")), {
    model: "m",
    prompt: "a = ",
    suffix: " + b",
    temperature: 0.1,
    stream: false,
    max_tokens: 64,
    stop: ["\n"],
  });
});

test("what stands after the cursor is not suggested again", () => {
  const trimmed = (answer: string, text: string) => trimCompletion(answer, at(text));
  assert.equal(trimmed("1, 2);", "f(|);"), "1, 2");
  assert.equal(trimmed("b + c\nmore", "a = | + d"), "b + c");
  assert.equal(trimmed("x = 1\n    return x\n", "def f():\n    |"), "x = 1\n    return x");
  assert.equal(trimmed("x = 1\ndef g():\n    pass", "def f():\n    |\n\ndef g():\n    return 2"), "x = 1");
  assert.equal(trimmed("a()\n}\nb()", "if (c) {\n  |\n}"), "a()\n}\nb()", "a bracket alone says nothing");
  assert.equal(trimmed("a\r\nb", "|"), "a\nb");
  assert.equal(trimmed(" \n\n", "x |"), "");
  const long = `${" ".repeat(200_000)}x`;
  assert.equal(trimmed(long, "a |").length, 200_001, "and it takes no time");
});

test("languages are switched by name, and others by *", () => {
  assert.equal(enabledFor({}, "python"), true);
  assert.equal(enabledFor({ "*": true, markdown: false }, "markdown"), false);
  assert.equal(enabledFor({ "*": false, python: true }, "python"), true);
  assert.equal(enabledFor({ "*": false, python: true }, "go"), false);
});

test("a document that is not allowed is not sent, however long that takes to tell", async () => {
  let asked = 0;
  const filler = new Filler(async () => `${++asked}`, { failed: () => {} });
  const wish = { model: "m", delay: 0 };
  const { signal } = new AbortController();
  assert.equal(await filler.fill(at("a = |"), wish, signal, async () => false), "");
  assert.equal(asked, 0);
  assert.equal(await filler.fill(at("a = |"), wish, signal, async () => true), "1");
  const left = new AbortController();
  const slow = async () => {
    left.abort();
    return true;
  };
  assert.equal(await filler.fill(at("b = |"), wish, left.signal, slow), "");
  assert.equal(asked, 1);
});

test("files that Git ignores are known, asked for once, and no program of the repository is run", async () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "ignored-"));
  const git = (...words: string[]) => execFileSync("git", words, { cwd: folder });
  git("init", "--quiet");
  const ran = path.join(folder, "ran");
  fs.writeFileSync(path.join(folder, "monitor"), `#!/bin/sh\ntouch ${ran}\n`, { mode: 0o755 });
  git("config", "core.fsmonitor", path.join(folder, "monitor"));
  fs.writeFileSync(path.join(folder, ".gitignore"), "out/\n*.gen.ts\n");
  fs.mkdirSync(path.join(folder, "out"));
  const ignored = new IgnoredFiles();
  assert.equal(await ignored.has(path.join(folder, "gate.ts")), false);
  assert.equal(await ignored.has(path.join(folder, "gate.gen.ts")), true);
  assert.equal(await ignored.has(path.join(folder, "out/gate.ts")), true);
  assert.equal(await ignored.has(path.join(os.tmpdir(), "outside.ts")), false);
  assert.equal(await ignored.has(path.join(folder, "no such folder/gate.ts")), false);
  assert.equal(fs.existsSync(ran), false);
  fs.writeFileSync(path.join(folder, ".gitignore"), "");
  assert.equal(await ignored.has(path.join(folder, "gate.gen.ts")), true, "from memory");
  ignored.clear();
  assert.equal(await ignored.has(path.join(folder, "gate.gen.ts")), false);
  fs.rmSync(folder, { recursive: true });
  assert.deepEqual(["/w/.gitignore", "/w/.git/info/exclude", "/w/a.ts"].map(isIgnoreFile), [true, true, false]);
});

test("a file of which Git cannot tell counts as ignored, and is asked for again", async () => {
  let [now, asked, fails] = [0, 0, true];
  const ignored = new IgnoredFiles(
    async () => {
      asked++;
      if (fails) throw new Error("timed out");
      return 1;
    },
    () => now,
  );
  assert.equal(await ignored.has("/w/a"), true);
  fails = false;
  assert.equal(await ignored.has("/w/a"), false);
  assert.equal(await ignored.has("/w/a"), false);
  assert.equal(asked, 2);
  now = 61_000;
  await ignored.has("/w/a");
  assert.equal(asked, 3, "the rules may have changed since");
});

test("a model that does not fill in is refused with the names of those that do", async () => {
  const refusal = (names: readonly string[] | undefined, model: string) =>
    new FimModels(async () => names).refusal(model);
  assert.equal(await refusal(["mistral/codestral-latest"], "mistral/codestral-latest"), undefined);
  assert.equal(await refusal(undefined, "acme/one"), undefined, "an older gateway does not tell");
  assert.equal(
    await refusal(["mistral/codestral-latest", "deepseek/deepseek-chat"], "openai/gpt-5.5"),
    "openai/gpt-5.5 does not fill in the middle. These models do: mistral/codestral-latest, deepseek/deepseek-chat.",
  );
  assert.match((await refusal([..."abcdefgh"], "x")) ?? "", /: a, b, c, d, e, f and 2 more\.$/);
  assert.match((await refusal([], "x")) ?? "", /Add a provider that has one/);
  assert.match((await refusal(["a"], "")) ?? "", /^no model is chosen/);
});

test("the list is asked for once a minute, and again after a failure", async () => {
  let [now, asked, fails] = [0, 0, true];
  const models = new FimModels(
    async () => {
      asked++;
      if (fails) throw new Error("away");
      return ["a"];
    },
    () => now,
  );
  assert.equal(await models.refusal("b"), undefined);
  fails = false;
  assert.match((await models.refusal("b")) ?? "", /These models do: a/);
  await models.refusal("b");
  assert.equal(asked, 2);
  now = 61_000;
  await models.refusal("b");
  assert.equal(asked, 3);
});

test("the gateway's list of models that fill in", async () => {
  const server = await gateway((_, response) => void response.end('{"version":1,"models":[],"fim":["a",7]}'));
  assert.deepEqual(await new Client({ url: server.url, key: "" }).fimModels(), ["a"]);
  await server.close();
  const older = await gateway((_, response) => void response.end('{"version":1,"models":[]}'));
  assert.equal(await new Client({ url: older.url, key: "" }).fimModels(), undefined);
  await older.close();
});
