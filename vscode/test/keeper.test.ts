import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, test } from "node:test";
import { alive, type Running, SharedFiles } from "../src/gateway/files.ts";
import { Keeper, type KeeperOptions, type State } from "../src/gateway/keeper.ts";

const folders: string[] = [];
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true });
});
function folder(): string {
  const made = mkdtempSync(join(tmpdir(), "penstock-"));
  folders.push(made);
  return made;
}

const row = (pid: number, version = "1"): Running => ({ url: `http://127.0.0.1:${pid}`, key: `k${pid}`, pid, version });

/** A machine on which gateways are numbers that are up or not. */
class Machine {
  readonly up = new Set<string>();
  readonly stopped: number[] = [];
  started = 0;
  broken = "";
  busy = false;
  now = 1_000;
  readonly states: State["is"][] = [];

  keeper(files: SharedFiles, more: Partial<KeeperOptions> = {}): Keeper {
    return new Keeper({
      files,
      version: "1",
      configured: async () => undefined,
      allowed: () => true,
      start: async () => {
        if (this.broken) throw new Error(this.broken);
        const fresh = row(++this.started);
        this.up.add(fresh.url);
        return fresh;
      },
      stop: ({ pid, url }) => {
        this.stopped.push(pid);
        this.up.delete(url);
      },
      healthy: async ({ url }) => this.up.has(url) && !this.busy,
      alive: ({ url }) => this.up.has(url),
      changed: ({ is }) => this.states.push(is),
      now: () => this.now,
      pause: async (milliseconds) => {
        this.now += milliseconds;
        await new Promise((wake) => setImmediate(wake));
      },
      ...more,
    });
  }
}

test("two windows start one gateway between them", async () => {
  const machine = new Machine();
  const place = folder();
  const keepers = ["a", "b", "c"].map((name) => machine.keeper(new SharedFiles(place, name)));
  const found = await Promise.all(keepers.map((keeper) => keeper.address()));
  assert.equal(machine.started, 1);
  assert.deepEqual(new Set(found.map(({ url }) => url)).size, 1);
  assert.equal(found[2]?.key, "k1");
});

test("a gateway that has died is started anew", async () => {
  const machine = new Machine();
  const keeper = machine.keeper(new SharedFiles(folder(), "a"));
  const first = await keeper.address();
  machine.up.clear();
  await keeper.check();
  assert.notEqual((await keeper.address()).url, first.url);
  assert.deepEqual(machine.states, ["starting", "ready", "starting", "ready"]);
});

test("one that is only busy is left alone for a while", async () => {
  const machine = new Machine();
  const place = folder();
  const keeper = machine.keeper(new SharedFiles(place, "a"));
  const first = await keeper.address();
  machine.busy = true;
  await keeper.check();
  assert.equal(machine.started, 1);
  const late = machine.keeper(new SharedFiles(place, "b"), {
    pause: async (milliseconds) => {
      machine.now += milliseconds;
      if (machine.now > 5_000) machine.busy = false;
    },
  });
  assert.equal((await late.address()).url, first.url);
  machine.busy = true;
  await keeper.check();
  await keeper.check();
  assert.equal(machine.started, 2, "one that never answers is replaced");
  assert.deepEqual(machine.stopped, [1]);
});

test("one of another version is replaced", async () => {
  const machine = new Machine();
  const files = new SharedFiles(folder(), "a");
  files.lock();
  files.unlock();
  files.write(row(77, "0"));
  machine.up.add(row(77).url);
  assert.equal((await machine.keeper(files).address()).url, row(1).url);
  assert.deepEqual(machine.stopped, [77]);
});

test("failed starts are paused, longer each time, and the reason is given at once meanwhile", async () => {
  const machine = new Machine();
  machine.broken = "no Python was found";
  const keeper = machine.keeper(new SharedFiles(folder(), "a"));
  await assert.rejects(keeper.address(), { message: "no Python was found." });
  await assert.rejects(keeper.address(), { message: "no Python was found. (Next try in 1 seconds.)" });
  machine.now += 1_001;
  await assert.rejects(keeper.address(), { message: "no Python was found." });
  await assert.rejects(keeper.address(), /Next try in 2 seconds/);
  machine.now += 2_001;
  machine.broken = "";
  assert.equal((await keeper.address()).url, row(1).url);
  assert.equal(keeper.state.is, "ready");
});

test("a gateway that has come back is used at once, and the pause is for starting only", async () => {
  const machine = new Machine();
  machine.broken = "no";
  const files = new SharedFiles(folder(), "a");
  const keeper = machine.keeper(files);
  await assert.rejects(keeper.address());
  await assert.rejects(keeper.address(), /Next try in 1 seconds/);
  files.write(row(9));
  await assert.rejects(keeper.address(), /Next try/, "it is written down, but does not answer");
  machine.up.add(row(9).url);
  assert.equal((await keeper.address()).url, row(9).url);
  assert.equal(keeper.state.is, "ready");
});

test("a gateway of the settings is looked for at each question", async () => {
  const machine = new Machine();
  const configured = async () => ({ url: "http://gateway.test", key: "" });
  const keeper = machine.keeper(new SharedFiles(folder(), "a"), { configured });
  await assert.rejects(keeper.address(), /does not answer/);
  await assert.rejects(keeper.address(), (error: Error) => !error.message.includes("Next try"));
  machine.up.add("http://gateway.test");
  assert.equal((await keeper.address()).url, "http://gateway.test");
});

test("a restart does not wait for the pause", async () => {
  const machine = new Machine();
  machine.broken = "no";
  const keeper = machine.keeper(new SharedFiles(folder(), "a"));
  await assert.rejects(keeper.address());
  machine.broken = "";
  assert.equal((await keeper.restart()).url, row(1).url);
  assert.equal((await keeper.restart()).url, row(2).url);
  assert.deepEqual(machine.stopped, [1]);
});

test("the gateway of the settings is used, and never stopped", async () => {
  const machine = new Machine();
  const configured = async () => ({ url: "http://gateway.example", key: "s" });
  const keeper = machine.keeper(new SharedFiles(folder(), "a"), { configured });
  await assert.rejects(keeper.address(), /The gateway at http:\/\/gateway.example does not answer: start it, or clear/);
  machine.up.add("http://gateway.example");
  machine.now += 2_000;
  assert.equal((await keeper.address()).key, "s");
  await keeper.restart();
  assert.deepEqual([machine.started, machine.stopped], [0, []]);
});

test("nothing is started where that is switched off", async () => {
  const keeper = new Machine().keeper(new SharedFiles(folder(), "a"), { allowed: () => false });
  await assert.rejects(keeper.address(), /switched off/);
});

test("a window that nobody asked anything starts nothing by itself", async () => {
  const machine = new Machine();
  await machine.keeper(new SharedFiles(folder(), "a")).check();
  assert.equal(machine.started, 0);
});

test("a lock left by a dead window is taken over; a live one is not", () => {
  const place = folder();
  const files = new SharedFiles(place, "a");
  writeFileSync(join(place, "starting.lock"), JSON.stringify({ pid: 2 ** 22 + 1, time: Date.now() }));
  assert.equal(files.lock(), true);
  assert.equal(new SharedFiles(place, "b").lock(), false);
  assert.equal(files.lock(Date.now() + 6 * 60_000), true, "a start that takes too long has failed");
  files.unlock();
  writeFileSync(join(place, "starting.lock"), "{");
  assert.equal(files.lock(), false, "it may be being written just now");
  assert.equal(files.lock(Date.now() + 10_000), true);
});

test("leases come and go, and the key is for its owner alone", () => {
  const place = folder();
  const [a, b] = [new SharedFiles(place, "a"), new SharedFiles(place, "b")];
  a.touch();
  b.touch();
  assert.deepEqual(readdirSync(a.leases).sort(), ["a", "b"]);
  a.release();
  assert.deepEqual(readdirSync(a.leases), ["b"]);
  a.write(row(5));
  assert.deepEqual(b.running(), row(5));
  if (process.platform !== "win32") assert.equal(statSync(join(place, "gateway.json")).mode & 0o077, 0);
  writeFileSync(join(place, "gateway.json"), "half");
  assert.equal(b.running(), undefined);
  a.forget();
  assert.equal(alive(process.pid), true);
});
