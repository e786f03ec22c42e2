import assert from "node:assert/strict";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, test } from "node:test";
import { withSignal } from "../src/cancel.ts";
import { downloadFailure } from "../src/gateway/downloads.ts";
import { environmentName, isComplete, markUsed, removeOldEnvironments } from "../src/gateway/environments.ts";
import { ask, closeConnections, textOf } from "../src/gateway/http.ts";
import { MOMENT, readyMessage, StartProgress } from "../src/progress.ts";

const folders: string[] = [];
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true });
});

/** A folder of the extension with environments in it; each was used so many days ago. */
function environments(days: Readonly<Record<string, number>>, now: number): string {
  const folder = mkdtempSync(join(tmpdir(), "penstock-"));
  folders.push(folder);
  for (const [name, age] of Object.entries(days)) {
    mkdirSync(join(folder, name, "bin"), { recursive: true });
    markUsed(join(folder, name));
    const time = now / 1000 - age * 86_400;
    utimesSync(join(folder, name, "complete"), time, time);
  }
  writeFileSync(join(folder, "gateway.json"), "{}");
  return folder;
}

test("environments of other versions are removed, and those that nobody uses any more", async () => {
  const now = Date.now();
  const [set, other] = [environmentName("1.2.0", "/opt/py"), environmentName("1.2.0", "/opt/older")];
  const folder = environments({ "environment-1.1.0": 0, "environment-1.2.0": 40, [set]: 3, [other]: 40 }, now);
  mkdirSync(join(folder, "environment-0.9.0")); // half made
  const removed = await removeOldEnvironments(folder, "1.2.0", join(folder, "environment-1.2.0"), now);
  assert.deepEqual(removed.sort(), ["environment-0.9.0", "environment-1.1.0", other].sort());
  assert.deepEqual(readdirSync(folder).sort(), ["environment-1.2.0", set, "gateway.json"].sort());
});

test("an environment that is being made for this version is left alone", async () => {
  const folder = environments({}, Date.now());
  mkdirSync(join(folder, "environment-1.2.0"));
  assert.deepEqual(await removeOldEnvironments(folder, "1.2.0", ""), []);
  assert.equal(isComplete(join(folder, "environment-1.2.0")), false);
  assert.deepEqual(await removeOldEnvironments(join(folder, "nowhere"), "1.2.0", ""), []);
});

test("a version is not taken for another that begins alike", async () => {
  const folder = environments({ "environment-1.2.0": 0, "environment-1.2.01": 0 }, Date.now());
  assert.deepEqual(await removeOldEnvironments(folder, "1.2.0", ""), ["environment-1.2.01"]);
  assert.ok(existsSync(join(folder, "environment-1.2.0")));
});

/** A view whose clock is turned by hand. */
function view() {
  const shown: string[] = [];
  let due: (() => void) | undefined;
  let delay = 0;
  const progress = new StartProgress({
    open: (over) => {
      shown.push("open");
      void over.then(() => shown.push("closed"));
      return (text) => shown.push(text);
    },
    later: (milliseconds, run) => {
      [due, delay] = [run, milliseconds];
      return () => {
        due = undefined;
      };
    },
  });
  return { progress, shown, wait: () => due?.(), delay: () => delay };
}

test("a start that is over in a moment shows nothing", () => {
  const { progress, shown, wait, delay } = view();
  progress.step("Starting…");
  assert.equal(delay(), MOMENT);
  assert.equal(progress.end(), false);
  wait();
  assert.deepEqual(shown, []);
});

test("a longer one shows the step that it is at, and the next ones", async () => {
  const { progress, shown, wait } = view();
  progress.step("Preparing the Python environment…");
  progress.step("Installing packages…");
  wait();
  progress.step("Starting…");
  assert.equal(progress.end(), true);
  await Promise.resolve();
  assert.deepEqual(shown, ["open", "Installing packages…", "Starting…", "closed"]);
  // The next start begins anew.
  progress.step("Starting…");
  assert.equal(progress.end(), false);
});

test("what is said after it: how many models, or what is missing", () => {
  const played = { played: true };
  assert.deepEqual(readyMessage([{}, {}, played]), { text: "Penstock is ready: 2 models." });
  assert.deepEqual(readyMessage([{}]), { text: "Penstock is ready: 1 model." });
  const none = { text: "Penstock is ready, but there is no key yet.", button: "Add Provider" };
  assert.deepEqual([readyMessage([]), readyMessage([played])], [none, none]);
});

test("failed downloads are told from other failures", () => {
  const failures = [
    "ERROR: No matching distribution found for aiohappyeyeballs==2.7.1",
    "error: Request failed after 3 retries\n  Caused by: dns error: failed to lookup address information",
    "socket.gaierror: [Errno 11001] getaddrinfo failed",
    "ssl.SSLCertVerificationError: [SSL: CERTIFICATE_VERIFY_FAILED]",
  ];
  for (const output of failures) assert.match(downloadFailure(output) ?? "", /check the network/, output);
  for (const output of ["No space left on device", "Permission denied: 'environment-1'", ""])
    assert.equal(downloadFailure(output), undefined);
});

/** A token of the host, with the number of those who listen to it. */
function token() {
  const listeners = new Set<() => void>();
  return {
    listeners,
    isCancellationRequested: false,
    onCancellationRequested: (run: () => void) => {
      listeners.add(run);
      return { dispose: () => void listeners.delete(run) };
    },
  };
}

test("nobody listens to a token once its request is over", async () => {
  const one = token();
  assert.equal(
    await withSignal(one as never, async (signal) => [signal.aborted, one.listeners.size].join()),
    "false,1",
  );
  assert.equal(one.listeners.size, 0);
  const failing = withSignal(one as never, () => Promise.reject(new Error("failed")));
  await assert.rejects(failing, /failed/);
  assert.equal(one.listeners.size, 0);
  const cancelled = withSignal(one as never, async (signal) => {
    for (const run of one.listeners) run();
    return signal.aborted;
  });
  assert.equal(await cancelled, true);
  assert.equal(await withSignal({ ...token(), isCancellationRequested: true } as never, async (s) => s.aborted), true);
});

test("connections are closed with the window, and opened again if need be", async () => {
  const server = createServer((_, response) => response.end("{}")).listen(0, "127.0.0.1");
  await new Promise((done) => server.once("listening", done));
  const address = { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, key: "" };
  const closed = new Promise((done) => server.once("connection", (socket) => socket.once("close", done)));
  await textOf((await ask(address, "healthz")).body);
  closeConnections();
  await closed;
  assert.equal((await ask(address, "healthz")).status, 200);
  closeConnections();
  server.close();
});
