import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { appendFileSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, test } from "node:test";
import { bundleIn } from "../src/gateway/bundle.ts";
import { startBundled } from "../src/gateway/bundled.ts";
import { alive, SharedFiles } from "../src/gateway/files.ts";
import { launch, means, NotRunnable } from "../src/gateway/launch.ts";
import type { Plan } from "../src/gateway/plan.ts";
import { here, identify, isGateway, stopGateway } from "../src/gateway/processes.ts";
import { Tail, watchFile } from "../src/gateway/tail.ts";

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
  const { url, pid, version, key } = running;
  assert.deepEqual([url, pid, version, key.length], ["http://127.0.0.1:5123", 4711, "1", 43]);
});

test("one that ends before it listens is told with its last words", async () => {
  const failing = started(node('console.error("a trace\\npenstock: port 1 is taken"); process.exit(2)'));
  await assert.rejects(failing, { message: "The gateway did not start: penstock: port 1 is taken; see the log." });
  await assert.rejects(started(node("process.exit(3)")), /did not start: it ended with 3/);
  const nobody: Plan = { how: "", prepare: [], run: { command: "/nowhere/python", args: [] } };
  await assert.rejects(started(nobody), /did not start: .*ENOENT/);
});

test("a program that cannot be run is told from a gateway that does not want to", async () => {
  const old = started(
    node('console.error("./penstock: /lib/libc.so.6: version GLIBC_2.38 not found"); process.exit(1)'),
  );
  await assert.rejects(old, NotRunnable);
  const faulty = started(
    node('console.error("penstock-vscode: pid 1\\npenstock: bad configuration"); process.exit(2)'),
  );
  await assert.rejects(
    faulty,
    (error: Error) => !(error instanceof NotRunnable) && /bad configuration/.test(error.message),
  );
});

test("the process is recorded with its start time", async () => {
  const code = `console.error("penstock-vscode: pid " + process.pid + "\\nhttp://127.0.0.1:5123"); setInterval(() => {}, 1000)`;
  const running = await started(node(code));
  assert.equal(running.started, (await identify(running.pid))?.started);
  assert.match(running.started ?? "", /./);
  process.kill(running.pid, "SIGKILL");
});

test("what a start does is told step by step", async () => {
  const steps: string[] = [];
  const files = new SharedFiles(folder());
  files.touch();
  const plan = {
    ...node('console.error("http://127.0.0.1:5123")'),
    prepare: ["one", "two"].map((step) => ({ command: process.execPath, args: ["-e", ""], step })),
  };
  await launch(plan, { files, version: "1", env: {}, args: [], log: () => {}, step: (text) => steps.push(text) });
  assert.deepEqual(steps, ["one", "two", "Starting…"]);
});

const failing = (output: string): Plan => ({
  ...node(""),
  prepare: [{ command: process.execPath, args: ["-e", `console.error(${JSON.stringify(output)}); process.exit(1)`] }],
});
const attempt = async (plan: Plan) => {
  const files = new SharedFiles(folder());
  files.touch();
  const lines: string[] = [];
  const error = await launch(plan, { files, version: "1", env: {}, args: [], log: (line) => lines.push(line) }).catch(
    (error: Error) => error,
  );
  return { message: (error as Error).message, log: lines.join("\n") };
};

test("an environment that cannot be made is told, and all that was printed is in the log", async () => {
  const { message, log } = await attempt(failing("WARNING: nearly full\nERROR: no space left"));
  assert.equal(message, "The gateway's environment could not be made: ERROR: no space left; see the log.");
  assert.match(log, /WARNING: nearly full\nERROR: no space left/);
});

test("a download that fails names the network", async () => {
  const output = [
    "WARNING: Retrying after connection broken by NewConnectionError: Temporary failure in name resolution",
    "ERROR: No matching distribution found for aiohappyeyeballs==2.7.1",
  ].join("\n");
  const { message, log } = await attempt(failing(output));
  assert.match(message, /^The gateway's packages could not be downloaded: check the network and the package index/);
  assert.ok(log.includes(output));
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

/** A process that runs until it is stopped, with some words on its command line. */
async function running(...words: string[]) {
  const script = join(folder(), "wait.js");
  writeFileSync(script, "setInterval(() => {}, 1000)");
  const child = spawn(process.execPath, [script, ...words], { stdio: "ignore" });
  await new Promise((done) => child.once("spawn", done));
  const exit = new Promise((done) => child.once("exit", (_, signal) => done(signal)));
  const pid = child.pid ?? 0;
  return { pid, started: (await identify(pid))?.started ?? "", exit, end: () => child.kill("SIGKILL") };
}

test("a number that is another process's by now is left alone", async () => {
  const leases = folder();
  const [other, own] = [await running("elsewhere"), await running(leases)];
  assert.notEqual(own.started, "");
  await stopGateway(other, leases);
  await stopGateway({ ...own, started: "another time" }, leases);
  await stopGateway({ pid: 0 }, leases);
  await stopGateway({ pid: 2 ** 22 + 1 }, leases);
  assert.deepEqual([alive(other.pid), alive(own.pid)], [true, true]);
  assert.deepEqual([await isGateway(other, leases), await isGateway(own, leases)], [false, true]);
  for (const one of [other, own]) {
    one.end();
    await one.exit;
  }
  assert.equal(await isGateway(own, leases), false);
});

test("the gateway of these windows is stopped", { skip: process.platform === "win32" }, async () => {
  const leases = folder();
  const own = await running(leases);
  process.env.COLUMNS = "40"; // a narrow terminal must not hide whose process it is
  await stopGateway({ pid: own.pid }, leases);
  delete process.env.COLUMNS;
  assert.equal(await own.exit, "SIGTERM");
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

/** An extension whose gateway is this script. */
async function bundled(script: string, python = "") {
  const [place, log] = [folder(), [] as string[]];
  const gateway = join(place, "bundle", "gateway");
  mkdirSync(gateway, { recursive: true });
  writeFileSync(join(gateway, "penstock"), script, { mode: 0o644 });
  const files = new SharedFiles(folder());
  files.touch();
  const options = { files, version: "1", env: {}, args: [], log: (line: string) => log.push(line) };
  const bundle = bundleIn(place, { ...here(), platform: "linux" });
  return { running: await startBundled(bundle, python, options), log: log.join("\n") };
}

test("the gateway inside is started, also if its file has lost its mode", {
  skip: process.platform === "win32",
}, async () => {
  const script = '#!/bin/sh\necho "penstock-vscode: pid $$" >&2\necho "http://127.0.0.1:5123 $1" >&2\n';
  assert.equal((await bundled(script)).running?.url, "http://127.0.0.1:5123");
  assert.deepEqual(await bundled(script, "/opt/py"), { running: undefined, log: "" });
});

test("one that this machine cannot run leaves the start to Python, and the log says why", async () => {
  const scripts = [
    "\u007fELF of another processor",
    "#!/bin/sh\necho '/lib/libc.so.6: version GLIBC_2.38 not found' >&2; exit 1\n",
  ];
  for (const script of scripts) {
    const { running, log } = await bundled(script);
    assert.equal(running, undefined);
    assert.match(log, /did not start: .* A Python of this machine is looked for instead\.$/);
  }
});

test("one that refuses its configuration is not tried another way", {
  skip: process.platform === "win32",
}, async () => {
  const script = '#!/bin/sh\necho "penstock-vscode: pid $$" >&2\necho "penstock: no such table" >&2\nexit 2\n';
  await assert.rejects(bundled(script), /did not start: penstock: no such table/);
});

test("a file that changes is looked at, also if it comes later, and no more once that is over", async () => {
  const path = join(folder(), "gateway.log");
  let seen = "";
  const tail = new Tail(path, (text) => {
    seen += text;
  });
  let changed = () => {};
  const watching = watchFile(path, () => {
    tail.look();
    changed();
  });
  const until = async (text: string) => {
    while (seen !== text)
      await new Promise<void>((wake) => {
        changed = wake;
      });
  };
  writeFileSync(path, "one\n");
  await until("one\n");
  appendFileSync(path, "two\n");
  await until("one\ntwo\n");
  watching.dispose();
  appendFileSync(path, "three\n");
  await new Promise((wake) => setImmediate(wake));
  assert.equal(seen, "one\ntwo\n");
});

test("a package for one platform has the gateway for it", () => {
  const place = folder();
  assert.equal(bundleIn(place).executable, undefined);
  const gateway = join(place, "bundle", "gateway");
  mkdirSync(gateway, { recursive: true });
  for (const name of ["penstock", "penstock.exe"]) writeFileSync(join(gateway, name), "");
  assert.equal(bundleIn(place, { ...here(), platform: "darwin" }).executable, join(gateway, "penstock"));
});

test("an extension without a wheel has no version to look for", () => {
  const place = folder();
  assert.equal(bundleIn(place).version, "");
  assert.equal(bundleIn(place).launcher, join(place, "media", "launch.py"));
});
