import assert from "node:assert/strict";
import * as fs from "node:fs";
import { test } from "node:test";
import { type DocumentFacts, refusalOf } from "../src/extras/eligibility.ts";
import { Filler, placeOf } from "../src/extras/fim.ts";
import { expandBraces, matchesGlob } from "../src/extras/globs.ts";
import { patternsOf, trustedValue } from "../src/policy.ts";

const manifest = JSON.parse(fs.readFileSync(new URL("../package.json", import.meta.url), "utf8"));
const EXCLUDE = manifest.contributes.configuration.properties["penstock.completions.exclude"].default;
const patterns = patternsOf({ defaultValue: EXCLUDE });
const folders = ["/home/ann/.config/Code/User"];

const refusal = (facts: Partial<DocumentFacts> & { path?: string }) =>
  refusalOf(
    { scheme: "file", language: "typescript", paths: [facts.path ?? "/w/src/gate.ts"], ...facts },
    { patterns, folders },
  );

test("files, new files and cells of their notebooks are allowed", () => {
  assert.equal(refusal({}), undefined);
  assert.equal(refusal({ scheme: "untitled", path: "Untitled-1" }), undefined);
  for (const notebook of ["file", "untitled"])
    assert.equal(refusal({ scheme: "vscode-notebook-cell", path: "/w/a.ipynb", notebook }), undefined);
});

test("every other kind of document is refused", () => {
  const others = ["vscode-scm", "output", "vscode-userdata", "git", "chatEditingInput", "vscode-chat-input", "debug"];
  for (const scheme of [...others, "vscode-vfs", "vscode-settings", "comment", "http", "", "File"])
    assert.match(refusal({ scheme }) ?? "", /kind/, scheme);
  for (const notebook of [undefined, "git", "vscode-chat", "vscode-notebook-cell"])
    assert.match(refusal({ scheme: "vscode-notebook-cell", notebook }) ?? "", /kind/, notebook);
});

test("files that hold secrets are refused by name, in any case and any folder", () => {
  const names = [
    ".env",
    ".env.local",
    ".ENV",
    "prod.env",
    ".envrc",
    "server.pem",
    "server.key",
    "id_rsa",
    "id_ed25519.pub",
  ];
  const more = ["a.p12", "a.pfx", ".npmrc", ".netrc", ".pypirc", "credentials", "credentials.json", "secrets.yaml"];
  const rest = [
    "prod.tfvars",
    "prod.auto.tfvars.json",
    "kubeconfig",
    ".git/config",
    ".ssh/config",
    ".aws/config",
    "a.log",
  ];
  const editor = [".vscode/settings.json", ".vscode/mcp.json", "gate.code-workspace", "penstock.toml", ".kube/config"];
  for (const name of [...names, ...more, ...rest, ...editor])
    for (const folder of ["", "/", "/w/", "/w/deep/er/"])
      assert.match(refusal({ path: folder + name }) ?? "", /penstock\.completions\.exclude/, folder + name);
  for (const name of [
    "environment.ts",
    "keys.ts",
    "env.ts",
    "login.ts",
    "credentials/index.ts",
    ".github/ci.yml",
    "secret/a.ts",
  ])
    assert.equal(refusal({ path: `/w/${name}` }), undefined, name);
});

test("a link is refused for where it leads, a cell for its notebook's name", () => {
  assert.match(refusal({ paths: ["/w/notes.txt", "/home/ann/.env"] }) ?? "", /\.env/);
  assert.match(
    refusal({ scheme: "vscode-notebook-cell", notebook: "file", path: "/w/secrets.ipynb" }) ?? "",
    /secrets/,
  );
});

test("documents are refused by language and the editor's own files by folder", () => {
  for (const language of ["dotenv", "scminput", "git-commit"])
    assert.match(refusal({ scheme: "untitled", language, path: "Untitled-1" }) ?? "", /language/);
  assert.match(refusal({ path: "/home/ann/.config/code/user/settings.json" }) ?? "", /editor/);
  assert.equal(refusal({ path: "/home/ann/.config/Code/Userland/a.ts" }), undefined);
});

test("globs match as in files.exclude", () => {
  const rows: [string, string, boolean][] = [
    ["**/*.ts", "/a/b/c.ts", true],
    ["*.ts", "/a/b/c.tsx", false],
    ["a/**/z", "/x/a/b/c/z", true],
    ["a/**/z", "/a/z", true],
    ["a/**", "/a", true],
    ["a/*/z", "/a/b/c/z", false],
    ["?.{js,ts}", "/w/a.ts", true],
    ["{a,b}{c,d}", "bd", true],
    ["x{y}", "/x{y}", true],
    ["*a*b*", "/xaxxbx", true],
    ["*a*b", "/ab/b", false],
    ["", "/a", true],
  ];
  for (const [pattern, path, expected] of rows)
    assert.equal(matchesGlob(pattern, path), expected, `${pattern} ${path}`);
  assert.equal(expandBraces("{a,b}".repeat(40)).length, 1, "the number of alternatives is bounded");
});

test("a pattern of a workspace cannot make matching slow", () => {
  const began = process.cpuUsage();
  matchesGlob(`${"*a".repeat(400)}b`, `/${"a".repeat(4_000)}`);
  matchesGlob(`${"**/a/".repeat(400)}b`, "/a".repeat(4_000));
  assert.ok(process.cpuUsage(began).user < 2_000_000);
});

test("a workspace can add patterns, and only the user can switch one off", () => {
  const levels = {
    defaultValue: { ".env": true, "*.key": true },
    globalValue: { "*.key": false, "*.mine": true },
    workspaceValue: { ".env": false, "*.theirs": true, "*.mine": false },
    workspaceFolderValue: { "*.folder": true },
  };
  assert.deepEqual(patternsOf(levels), [".env", "*.mine", "*.theirs", "*.folder"]);
  assert.deepEqual(patternsOf({ defaultValue: { ".env": true }, globalValue: { ".env": "no" } }), [".env"]);
  assert.deepEqual(patternsOf({ defaultValue: { ".env": true }, globalValue: null, workspaceValue: [1] }), [
    ".env",
    "0",
  ]);
});

test("values of a workspace count once it is trusted", () => {
  const levels = { defaultValue: false, globalValue: undefined, workspaceValue: true, workspaceFolderValue: true };
  assert.equal(trustedValue("completions.enabled", true, levels, true), true);
  assert.equal(trustedValue("completions.enabled", true, levels, false), false);
  assert.equal(trustedValue("completions.enabled", true, { ...levels, globalValue: true }, false), true);
  assert.equal(trustedValue("reasoning", "text", { defaultValue: "thinking" }, false), "text");
  assert.equal(trustedValue("added.later", "x", { defaultValue: "" }, false), "", "a new setting is restricted");
});

test("nobody is asked with an empty prompt", async () => {
  let asked = 0;
  const filler = new Filler(async () => `${++asked}`, { failed: () => {} });
  const fill = (text: string, offset: number) =>
    filler.fill(placeOf(text, offset), { model: "acme/fill", delay: 0 }, new AbortController().signal);
  for (const [text, offset] of [
    ["", 0],
    [" \n\t", 3],
    ["\nconst a = 1;", 1],
    ["\u00a0", 1],
  ] as const)
    assert.equal(await fill(text, offset), "");
  assert.equal(asked, 0);
  assert.equal(await fill("a", 1), "1");
});
