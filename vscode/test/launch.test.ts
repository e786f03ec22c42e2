import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { appendFileSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, test } from "node:test";
import { bundleIn } from "../src/gateway/bundle.ts";
import { alive, SharedFiles } from "../src/gateway/files.ts";
import { here, kill, launch, means } from "../src/gateway/launch.ts";
import type { Plan } from "../src/gateway/plan.ts";
import { Tail } from "../src/gateway/tail.ts";

const folders: string[] = [];
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true });
});
function folder(): string {
  const made = mkdtempSync(join(tmpdir(), "penstock-"));
  folders.push(made);
  return made;
}

const node = (code: string): Plan => ({
  how: "node",
  prepare: [],
  run: { command: process.execPath, args: ["-e", code] },
});
const started = (plan: Plan, place = folder()) => {
  const files = new SharedFiles(place);
  files.touch();
  return launch(plan, { files, version: "1", env: { MORE: "yes" }, args: ["--more"], log: () => {} });
};

test("a gateway's address and number are read from its log, and its key is in a variable", async () => {
  const code = `console.error("penstock-vscode: pid 4711");
    console.error("penstock is listening on http://127.0.0.1:5123", process.env.MORE, process.env.PENSTOCK_GATEWAY_KEY.length);
    console.error(process.argv.slice(1).join(" "));`;
  const running = await started(node(code));
  assert.deepEqual(
    { ...running, key: running.key.length },
    { url: "http://127.0.0.1:5123", pid: 4711, version: "1", key: 43 },
  );
});

test("one that ends before it listens is told with its last words", async () => {
  const failing = started(node('console.error("a trace\\npenstock: port 1 is taken"); process.exit(2)'));
  await assert.rejects(failing, { message: "The gateway did not start: penstock: port 1 is taken; see the log." });
  await assert.rejects(started(node("process.exit(3)")), /did not start: it ended with 3/);
  const nobody: Plan = { how: "", prepare: [], run: { command: "/nowhere/python", args: [] } };
  await assert.rejects(started(nobody), /did not start: .*ENOENT/);
});

test("an environment that cannot be made is told", async () => {
  const plan = {
    ...node(""),
    prepare: [{ command: process.execPath, args: ["-e", 'console.error("no space left"); process.exit(1)'] }],
  };
  await assert.rejects(started(plan), {
    message: "The gateway's environment could not be made: no space left; see the log.",
  });
});

test("nothing that lies where the editor was started is run", async () => {
  const [evil, own] = [folder(), folder()];
  for (const name of ["json", "penstock", "venv"])
    writeFileSync(join(evil, `${name}.py`), `open(${JSON.stringify(join(evil, "ran"))}, "w")`);
  const bundle = bundleIn(own);
  mkdirSync(join(own, "media"));
  const before = process.cwd();
  process.chdir(evil);
  try {
    await means({ trusted: false, folders: [evil] }, bundle, true, { ...here(), platform: "linux" });
    const venv = { command: "python3", args: ["-m", "venv", "--help"] };
    const running = { command: process.execPath, args: ["-e", 'console.error("http://127.0.0.1:1")'] };
    await started({ how: "", prepare: [venv], run: running }).catch(() => {}); // where there is no Python
  } finally {
    process.chdir(before);
  }
  assert.equal(existsSync(join(evil, "ran")), false);
});

test("a number that is another process's by now is left alone", async () => {
  const other = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"], { stdio: "ignore" });
  await new Promise((done) => other.once("spawn", done));
  const gone = new Promise((done) => other.once("exit", done));
  kill(other.pid ?? 0);
  kill(0);
  kill(2 ** 22 + 1);
  assert.equal(alive(other.pid ?? 0), true);
  other.kill("SIGKILL");
  await gone;
});

test("one of ours is stopped", { skip: process.platform === "win32" }, async () => {
  const script = join(folder(), "launch.py");
  writeFileSync(script, "setInterval(() => {}, 1000)");
  const own = spawn(process.execPath, [script], { stdio: "ignore" });
  await new Promise((done) => own.once("spawn", done));
  const gone = new Promise((done) => own.once("exit", (_, signal) => done(signal)));
  process.env.COLUMNS = "40"; // a narrow terminal must not hide whose process it is
  kill(own.pid ?? 0);
  delete process.env.COLUMNS;
  const never = new Promise((done) => setTimeout(() => done("nothing came"), 10_000).unref());
  const signal = await Promise.race([gone, never]);
  own.kill("SIGKILL");
  assert.equal(signal, "SIGTERM");
});

test("a log is followed, also when it begins anew", () => {
  const path = join(folder(), "gateway.log");
  let said = "";
  const tail = new Tail(path, (text) => {
    said += text;
  });
  tail.look();
  writeFileSync(path, "one\n");
  tail.look();
  const wave = Buffer.from("🌊");
  appendFileSync(path, wave.subarray(0, 2));
  tail.look();
  appendFileSync(path, wave.subarray(2));
  tail.look();
  assert.equal(said, "one\n🌊");
  writeFileSync(path, "2\n");
  tail.look();
  assert.equal(said, "one\n🌊2\n");
});

test("an extension without a wheel has no version to look for", () => {
  const place = folder();
  assert.equal(bundleIn(place).version, "");
  assert.equal(bundleIn(place).launcher, join(place, "media", "launch.py"));
});
