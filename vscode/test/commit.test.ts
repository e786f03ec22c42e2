import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import * as fs from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import { test } from "node:test";
import { commitMessage, commitPrompt, fairShares, newFile, parseDiff } from "../src/extras/commit.ts";
import { patternsOf } from "../src/policy.ts";

const manifest = JSON.parse(fs.readFileSync(new URL("../package.json", import.meta.url), "utf8"));
const EXCLUDE = manifest.contributes.configuration.properties["penstock.completions.exclude"].default;
const patterns = patternsOf({ defaultValue: EXCLUDE });

test("a commit message is the message alone", () => {
  for (const answer of ["Fix the gate", "```\nFix the gate\n```", '"Fix the gate"', "  `Fix the gate` "])
    assert.equal(commitMessage(answer), "Fix the gate");
  assert.equal(commitMessage("Fix\n\nBecause `x` broke"), "Fix\n\nBecause `x` broke");
});

test("a diff keeps the names of excluded files, not their contents", () => {
  const file = (name: string, text: string) =>
    `diff --git a/${name} b/${name}\nindex 1..2 100644\n--- a/${name}\n+++ b/${name}\n@@ -1 +1 @@\n+${text}\n`;
  const diff = [
    file("src/gate.ts", "open()"),
    file(".env", "KEY=sk-one"),
    file("a b/.env.local", "KEY=sk-two"),
    `diff --git "a/\\303\\244/server.pem" "b/\\303\\244/server.pem"\n@@ -1 +1 @@\n+sk-three\n`,
    `diff --git a/notes.txt b/.npmrc\nsimilarity index 90%\nrename from notes.txt\nrename to .npmrc\n@@ -1 +1 @@\n+sk-four\n`,
    file("src/last.ts", "diff --git is a word here"),
  ].join("");
  const { text, hidden } = commitPrompt(parseDiff(diff, patterns), []);
  assert.equal(/sk-/.test(text), false, text);
  for (const kept of ["open()", "is a word here", '.npmrc (renamed from …; not shown: it matches ".npmrc")'])
    assert.ok(text.includes(kept), text);
  assert.deepEqual(hidden, [".env", "a b/.env.local", "\\303\\244/server.pem", ".npmrc"]);
  assert.equal(newFile("conf/.env", "KEY=sk-five", patterns).lines.length, 0);
});

test("changes as Git writes them: new, deleted, renamed, changed, binary", () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "commit-"));
  const git = (...words: string[]) =>
    execFileSync("git", ["-c", "user.name=a", "-c", "user.email=a@b", ...words], { cwd: folder, encoding: "utf8" });
  const write = (name: string, text: string | Buffer) => fs.writeFileSync(path.join(folder, name), text);
  git("init", "--quiet");
  write("kept.txt", "one\n");
  write("gone.txt", "two\nthree\n");
  write("old name.txt", Array.from({ length: 20 }, (_, line) => `line ${line}`).join("\n"));
  write("logo.bin", Buffer.from([0, 1, 2]));
  git("add", ".");
  git("commit", "--quiet", "-m", "Begin");
  write("kept.txt", "changed\n");
  fs.rmSync(path.join(folder, "gone.txt"));
  fs.renameSync(path.join(folder, "old name.txt"), path.join(folder, "new näme.txt"));
  write("logo.bin", Buffer.from([0, 1, 3]));
  write("fresh.txt", "four\n");
  git("add", ".");
  const changes = parseDiff(git("diff", "--cached", "--find-renames"), patterns);
  fs.rmSync(folder, { recursive: true });
  assert.deepEqual(
    changes.map(({ path: name, kind, hidden }) => [name, kind, hidden]),
    [
      ["fresh.txt", "new", undefined],
      ["gone.txt", "deleted", "about 8 lines"],
      ["kept.txt", "changed", undefined],
      ["logo.bin", "changed", "binary"],
      ["new n\\303\\244me.txt", "renamed", undefined],
    ],
  );
  const { text, cut } = commitPrompt(changes, ["Tests: fewer"]);
  assert.ok(text.includes("new n\\303\\244me.txt (renamed from old name.txt)"));
  assert.ok(text.includes("--- kept.txt\n@@ -1 +1 @@\n-one\n+changed"));
  assert.ok(text.includes("- Tests: fewer"));
  assert.equal(text.includes("three"), false, "a file that is gone is only named");
  assert.deepEqual(cut, []);
});

test("new files are read, unless they are no text", () => {
  const { text } = commitPrompt(
    [newFile("a.ts", "x\ny\n", patterns), newFile("b.png", undefined, patterns), newFile("empty", "", patterns)],
    [],
  );
  assert.match(text, /a\.ts \(new\)\nb\.png \(new; binary or too large\)\nempty \(new\)/);
  assert.match(text, /--- a\.ts\n\+x\n\+y/);
});

test("a large diff is cut by file: each is named, and has its share", () => {
  const long = (name: string, lines: number) => newFile(name, "0123456789\n".repeat(lines), []);
  const changes = [long("huge.ts", 50_000), newFile("small.ts", "one line\n", []), long("large.ts", 5_000)];
  const { text, cut } = commitPrompt(changes, []);
  assert.ok(text.length < 26_000, String(text.length));
  for (const name of ["huge.ts", "small.ts", "large.ts"]) assert.ok(text.includes(`--- ${name}`));
  assert.deepEqual(cut, ["huge.ts", "large.ts"]);
  assert.match(text, /2 of 3 files are shown in part\./);
  assert.match(text, /\[4\d{4} more lines of this file\]/);
  assert.match(text, /\+one line/);
  const one = commitPrompt([newFile("bundle.js", "z".repeat(100_000), [])], []);
  assert.ok(one.text.length < 25_000 && one.text.includes("zzzz") && one.text.includes("[1 more line of this file]"));
});

test("thousands of files are named by folder", () => {
  const changes = Array.from({ length: 3_000 }, (_, number) => newFile(`src/gen/${number}.ts`, "x", []));
  const { text } = commitPrompt(changes, []);
  assert.ok(text.includes("src/gen/: 2600 more"));
  assert.ok(text.length < 45_000, String(text.length));
});

test("what small ones leave is for the others", () => {
  assert.deepEqual(fairShares([10, 1000, 100], 300), [10, 190, 100]);
  assert.deepEqual(fairShares([10, 1000, 1000], 300), [10, 145, 145]);
  assert.deepEqual(fairShares([1, 2], 300), [1, 2]);
  assert.deepEqual(fairShares([], 300), []);
});
