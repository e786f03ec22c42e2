import assert from "node:assert/strict";
import { test } from "node:test";
import type { System } from "../src/gateway/places.ts";
import { identify, isGateway, type ProcessTools, stopGateway } from "../src/gateway/processes.ts";

const linux: System = { platform: "linux", env: {}, home: "/home/ann" };
const mac: System = { platform: "darwin", env: {}, home: "/Users/ann" };
const windows: System = { platform: "win32", env: { SystemRoot: "D:\\Windows" }, home: "C:\\Users\\Ann Lee" };

/** A system that answers with these texts, and notes what it was asked. */
function answering(answers: Readonly<Record<string, string>>): ProcessTools & { asked: string[] } {
  const asked: string[] = [];
  const answer = async (question: string) => {
    asked.push(question);
    const found = Object.entries(answers).find(([part]) => question.includes(part))?.[1];
    if (found === undefined) throw new Error("no such process");
    return found;
  };
  return { asked, run: (command, args) => answer([command, ...args].join(" ")), read: answer };
}

const STAT = `812 (a (odd) name) S 1 812 812 0 -1 4194304 1 0 0 0 5 3 0 0 20 0 9 0 ${"777123"} 0 0`;
const LEASES = {
  linux: "/home/ann/.config/Code/User/globalStorage/penstock.penstock/windows",
  mac: "/Users/ann/Library/Application Support/Code/User/globalStorage/penstock.penstock/windows",
  windows: "C:\\Users\\Ann Lee\\AppData\\Roaming\\Code\\User\\globalStorage\\penstock.penstock\\windows",
};

test("on Linux a process is identified by /proc, whatever its name is", async () => {
  const tools = answering({ "812/stat": STAT, "812/cmdline": `/x/penstock\0vscode-launch\0${LEASES.linux}\0--port\0` });
  assert.deepEqual(await identify(812, linux, tools), {
    started: "777123",
    command: `/x/penstock vscode-launch ${LEASES.linux} --port`,
  });
  assert.equal(await identify(813, linux, tools), undefined);
});

test("on macOS by ps, with its full path and all of its words", async () => {
  const line = `Tue Nov 17 12:13:18 2026     /x/penstock vscode-launch ${LEASES.mac} --port 0\n`;
  const tools = answering({ "-p 812": line });
  assert.deepEqual(await identify(812, mac, tools), {
    started: "Tue Nov 17 12:13:18 2026",
    command: `/x/penstock vscode-launch ${LEASES.mac} --port 0`,
  });
  assert.deepEqual(tools.asked, ["/bin/ps -ww -p 812 -o lstart= -o command="]);
  const single = answering({ "-p 812": "Sun Nov  1 02:03:04 2026 /x/penstock\n" });
  assert.equal((await identify(812, mac, single))?.started, "Sun Nov  1 02:03:04 2026");
  assert.equal(await identify(812, mac, answering({ "-p 812": "\n" })), undefined);
});

test("on Windows by its own PowerShell, never by one that lies elsewhere", async () => {
  const command = `"C:\\Users\\Ann Lee\\.vscode\\penstock.exe" vscode-launch "${LEASES.windows}" --port 0`;
  const tools = answering({ "ProcessId = 812": `2026-11-17T11:13:18.1234560Z\r\n${command}\r\n` });
  assert.deepEqual(await identify(812, windows, tools), { started: "2026-11-17T11:13:18.1234560Z", command });
  assert.match(tools.asked[0] ?? "", /^D:\\Windows\\System32\\WindowsPowerShell\\v1\.0\\powershell\.exe -NoProfile/);
  assert.equal(await identify(812, windows, answering({ "ProcessId = 812": "" })), undefined);
});

test("a number that is no number of a process is never asked for", async () => {
  for (const system of [linux, mac, windows]) {
    const tools = answering({});
    for (const pid of [0, 1, -5, 1.5, Number.NaN]) assert.equal(await identify(pid, system, tools), undefined);
    assert.deepEqual(tools.asked, []);
  }
});

test("on Windows a Python that has got the number since is not taken for the gateway", async () => {
  const started = "2026-11-17T11:13:18.0000000Z";
  const answer = (when: string, command: string) => answering({ "ProcessId = 812": `${when}\r\n${command}\r\n` });
  const own = `penstock.exe vscode-launch "${LEASES.windows}"`;
  const rows: [string, string, boolean][] = [
    [started, own, true],
    ["2026-11-18T00:00:00.0000000Z", own, false],
    [started, "python.exe C:\\work\\server.py", false],
    [started, "uv.exe run pytest", false],
  ];
  for (const [when, command, expected] of rows) {
    const tools = answer(when, command);
    assert.equal(await isGateway({ pid: 812, started }, LEASES.windows, windows, tools), expected, command);
    const killed: number[] = [];
    await stopGateway({ pid: 812, started }, LEASES.windows, windows, tools, (pid) => killed.push(pid));
    assert.deepEqual(killed, expected ? [812] : []);
  }
  // The file of an earlier version has no start time.
  assert.equal(await isGateway({ pid: 812 }, LEASES.windows, windows, answer(started, own)), true);
});

test("a gateway that ends while it is stopped is no error", async () => {
  const tools = answering({ "-p 812": `Tue Nov 17 12:13:18 2026 penstock vscode-launch ${LEASES.mac}` });
  await stopGateway({ pid: 812 }, LEASES.mac, mac, tools, () => {
    throw new Error("ESRCH");
  });
});
