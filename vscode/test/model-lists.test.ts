import assert from "node:assert/strict";
import { test } from "node:test";
import { Failure } from "../src/errors.ts";
import { type Memory, ModelLists } from "../src/model-lists.ts";
import type { Model } from "../src/wire.ts";
import { model } from "./host.ts";

class Store implements Memory {
  readonly rows = new Map<string, unknown>();
  get(key: string): unknown {
    return this.rows.get(key);
  }
  async update(key: string, value: unknown): Promise<void> {
    this.rows.set(key, value);
  }
}

/** A gateway whose lists are given, or refused, when the test says so. */
function source(suffix = "") {
  const waiting: { resolve: (models: Model[]) => void; reject: (error: unknown) => void }[] = [];
  const fetch = () => new Promise<Model[]>((resolve, reject) => waiting.push({ resolve, reject }));
  return { suffix, fetch, waiting, next: () => waiting.shift() as (typeof waiting)[number] };
}

const settled = () => new Promise((wake) => setImmediate(wake));
const ids = (models: readonly Model[] | undefined) => models?.map(({ id }) => id);
const NEVER = 60_000;

test("the list of the last session is shown at once, and the host is told when another one arrives", async () => {
  const memory = new Store();
  const before = source();
  const first = new ModelLists(memory, () => {}, NEVER).list(before);
  before.next().resolve([model({ id: "a/1" })]);
  assert.deepEqual(ids((await first).models), ["a/1"]);

  let told = 0;
  const lists = new ModelLists(memory, () => told++, NEVER);
  const now = source();
  assert.deepEqual(ids((await lists.list(now)).models), ["a/1"], "nothing has answered yet");
  now.next().resolve([model({ id: "a/1" }), model({ id: "a/2" })]);
  await settled();
  assert.equal(told, 1);
  const again = lists.list(now);
  now.next().resolve([model({ id: "a/1" }), model({ id: "a/2" })]);
  assert.deepEqual(ids((await again).models), ["a/1", "a/2"]);
  assert.equal(told, 1, "the same list is nothing to tell");
});

test("a gateway that fails leaves its models where they are, and says why", async () => {
  let told = 0;
  const lists = new ModelLists(new Store(), () => told++, NEVER);
  const one = source();
  const first = lists.list(one);
  one.next().resolve([model({ id: "a/1" })]);
  await first;
  for (const error of [new Failure("It is down.", "network"), new Error("connect ECONNREFUSED")]) {
    const listing = lists.list(one);
    one.next().reject(error);
    const { models, why } = await listing;
    assert.deepEqual(ids(models), ["a/1"]);
    assert.equal(why?.message, error.message);
  }
  assert.equal(told, 0);
});

test("where there never was a list there is the reason, and then the list", async () => {
  let told = 0;
  const lists = new ModelLists(new Store(), () => told++, NEVER);
  const one = source();
  const first = lists.list(one);
  one.next().reject(new Failure("No Python was found.", "network"));
  assert.deepEqual(await first, { models: undefined, why: new Failure("No Python was found.", "network") });
  const look = lists.look();
  one.next().resolve([model({ id: "a/1" })]);
  await look;
  assert.equal(told, 1);
});

test("with packaged models only, a reason is told when it arrives", async () => {
  let told = 0;
  const lists = new ModelLists(new Store(), () => told++, NEVER);
  const one = source();
  const first = lists.list(one);
  one.next().resolve([model({ id: "replay/text", played: true })]);
  await first;
  const look = lists.look();
  one.next().reject(new Failure("It is down.", "network"));
  await look;
  assert.equal(told, 1);
});

test("a gateway that takes its time is not waited for, and asked once", async () => {
  let told = 0;
  const lists = new ModelLists(new Store(), () => told++, 1);
  const one = source();
  assert.deepEqual(await lists.list(one), { models: undefined, why: undefined });
  assert.deepEqual(await lists.list(one), { models: undefined, why: undefined });
  assert.equal(one.waiting.length, 1);
  one.next().resolve([model({ id: "a/1" })]);
  await settled();
  assert.equal(told, 1);
});

test("an answer to an earlier question does not count after the settings have changed", async () => {
  const lists = new ModelLists(new Store(), () => {}, 1);
  const one = source();
  await lists.list(one);
  const old = one.next();
  lists.forget();
  const listing = lists.list(one);
  one.next().resolve([model({ id: "new/1" })]);
  await listing;
  old.resolve([model({ id: "old/1" })]);
  await settled();
  assert.deepEqual(ids(lists.models("")), ["new/1"]);
});

test("gateways are told apart, and what was kept may be damaged", async () => {
  const memory = new Store();
  for (const [suffix, kept] of [
    ["", "{"],
    ["@a:1", '[{"id":1}]'],
    ["@b:1", 7],
  ] as const) {
    memory.rows.set(`models${suffix}`, kept);
    const lists = new ModelLists(memory, () => {}, 1);
    assert.deepEqual(await lists.list(source(suffix)), { models: undefined, why: undefined });
  }
  const lists = new ModelLists(memory, () => {}, NEVER);
  const [own, other] = [source(), source("@c:1")];
  const both = Promise.all([lists.list(own), lists.list(other)]);
  own.next().resolve([model({ id: "a/1" })]);
  other.next().resolve([model({ id: "b/1" })]);
  assert.deepEqual(
    (await both).map(({ models }) => ids(models)),
    [["a/1"], ["b/1"]],
  );
  assert.ok(String(memory.get("models@c:1")).includes("b/1"));
});
