import assert from "node:assert/strict";
import { test } from "node:test";
import type { ProviderRow } from "../src/gateway/provider-routes.ts";
import { joined, ProviderGroups } from "../src/providers/groups.ts";
import {
  maskedKey,
  nameProblem,
  ProviderStore,
  type Secrets,
  serverName,
  urlProblem,
  withKey,
} from "../src/providers/store.ts";
import { factsText, keysText, pricesOf, sourceText, tokensOf } from "../src/providers/texts.ts";

class Memory implements Secrets {
  readonly kept = new Map<string, string>();
  readonly #listeners: ((change: { readonly key: string }) => unknown)[] = [];
  get = async (key: string) => this.kept.get(key);
  store = async (key: string, value: string) => {
    this.kept.set(key, value);
    for (const run of this.#listeners) run({ key });
  };
  delete = async (key: string) => {
    this.kept.delete(key);
    for (const run of this.#listeners) run({ key });
  };
  onDidChange = (run: (change: { readonly key: string }) => unknown) => {
    this.#listeners.push(run);
    return { dispose: () => {} };
  };
}

test("providers are kept in one secret, and every window hears of a change", async () => {
  const secrets = new Memory();
  const [one, two] = [new ProviderStore(secrets), new ProviderStore(secrets)];
  let heard = 0;
  two.onDidChange(() => heard++);
  await Promise.all([one.save({ name: "openai", keys: ["a"] }), one.save({ name: "groq", keys: ["b"] })]);
  await one.save({ name: "openai", keys: ["a", "c"] });
  await secrets.store("something else", "x");
  assert.deepEqual(await two.list(), [
    { name: "groq", keys: ["b"] },
    { name: "openai", keys: ["a", "c"] },
  ]);
  assert.equal(heard, 3);
  await two.remove("groq");
  await two.remove("openai");
  assert.deepEqual([...secrets.kept.keys()], ["something else"]);
});

test("a secret that cannot be read counts as none", async () => {
  const secrets = new Memory();
  const store = new ProviderStore(secrets);
  for (const text of ["{", "7", '[{"name": 1}, null, {"name": "x", "keys": [2]}]']) {
    secrets.kept.set("penstock.providers", text);
    assert.deepEqual(await store.list(), []);
  }
});

test("a key is added once, and shown by its end only", () => {
  const once = withKey(undefined, "openai", "sk-1234567890abcd");
  assert.deepEqual(withKey(once, "openai", "sk-1234567890abcd").keys, ["sk-1234567890abcd"]);
  assert.deepEqual(withKey(once, "openai", "second").keys, ["sk-1234567890abcd", "second"]);
  assert.equal(maskedKey("sk-1234567890abcd"), "…abcd");
  assert.equal(maskedKey("short"), "…");
  assert.equal(keysText(withKey(once, "openai", "second")), "keys …abcd, …");
});

test("own servers get a name from their address", () => {
  assert.equal(serverName("http://Llama.lan:8080/v1", []), "llama.lan-8080");
  assert.equal(serverName("http://llama.lan:8080/v1", ["llama.lan-8080"]), "llama.lan-8080-2");
  assert.equal(serverName("http://[::1]:8080", []), "1-8080");
  assert.notEqual(nameProblem("Not This", []), "");
  assert.notEqual(nameProblem("taken", ["taken"]), "");
  assert.equal(nameProblem("my-server.2", ["taken"]), "");
});

test("addresses are checked before they are used", () => {
  for (const wrong of ["", "llama.lan", "ftp://x", "http://", "https://me:secret@x"])
    assert.notEqual(urlProblem(wrong), "");
  assert.equal(urlProblem(" http://127.0.0.1:8080/v1 "), "");
});

test("numbers as people write them", () => {
  assert.deepEqual(["65536", "128k", "1 m", "65,536", "0", "x", "1e9"].map(tokensOf), [
    65_536,
    128_000,
    1_000_000,
    65_536,
    undefined,
    undefined,
    undefined,
  ]);
  assert.deepEqual(pricesOf("$0.5 / $1.5"), { input: 0.5, output: 1.5 });
  assert.deepEqual(pricesOf("0 0"), { input: 0, output: 0 });
  assert.deepEqual(["", "1", "1 2 3", "a b", "-1 2"].map(pricesOf), [
    undefined,
    undefined,
    undefined,
    undefined,
    undefined,
  ]);
  assert.equal(
    factsText({ context: 65_536, vision: true, tools: false, prices: { input: 1, output: 2 } }),
    "window 65,536, images, no tools, $1 in, $2 out",
  );
});

const row = (more: Partial<ProviderRow>): ProviderRow => ({
  name: "x",
  label: "X",
  own: false,
  configured: true,
  source: "",
  ...more,
});
test("where a key is, in words", () => {
  assert.equal(sourceText(row({ source: "editor", keys: 2 })), "2 keys in VS Code");
  assert.equal(sourceText(row({ source: "environment", variable: "X_KEY" })), "key in X_KEY");
  assert.equal(sourceText(row({ local: true })), "runs on this machine");
  assert.equal(sourceText(row({})), "");
});

test("groups of the editor: a provider lists once, keys count together, and what is no longer asked for is gone", async () => {
  let gone = 0;
  const over = Promise.withResolvers<void>();
  const groups = new ProviderGroups(() => {
    gone++;
    over.resolve();
  }, 5);
  groups.begin();
  assert.deepEqual(groups.add("Work", { provider: "openai", apiKey: " a " }), { changed: true, lists: true });
  assert.deepEqual(groups.add("Home", { provider: "openai", apiKey: "b" }), { changed: true, lists: false });
  assert.deepEqual(groups.add("Work", { provider: "openai", apiKey: "a" }), { changed: false, lists: true });
  assert.deepEqual(groups.entries, [{ name: "openai", keys: ["a", "b"] }]);
  groups.begin();
  groups.add("Home", { provider: "openai", apiKey: "b" });
  await over.promise;
  assert.equal(gone, 1);
  assert.deepEqual(groups.entries, [{ name: "openai", keys: ["b"] }]);
  assert.deepEqual([...groups.providers], ["openai"]);
  groups.dispose();
});

test("stored keys and those of groups count together", () => {
  const stored = [{ name: "openai", keys: ["a"], origin: "https://x" }];
  const grouped = [
    { name: "openai", keys: ["b", "a"] },
    { name: "groq", keys: ["c"] },
  ];
  assert.deepEqual(joined(stored, grouped), [
    { name: "openai", keys: ["a", "b"], origin: "https://x" },
    { name: "groq", keys: ["c"] },
  ]);
});
