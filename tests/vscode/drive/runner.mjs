// The official test runner of VS Code, in a real one: node runner.mjs JOB.json
// A job: {work, extension, tests, settings, env, limit}. Prints what the tests print, and what a person was told; exits as
// the tests do.
import fs from "node:fs";
import { startBrowser, startCode } from "./code.mjs";

const job = JSON.parse(fs.readFileSync(process.argv[2], "utf8"));
const code = await startCode(job.work, job);
const browser = await startBrowser();
let exit = 1;
try {
  exit = await run();
} finally {
  await browser.close();
  code.stop();
}
process.exit(exit);

async function run() {
  const page = await browser.newPage({ viewport: { width: 1200, height: 800 } });
  const errors = [];
  page.on("pageerror", (error) => errors.push(String(error)));
  const over = new Promise((resolve) => {
    void page.exposeFunction("codeAutomationExit", (status) => resolve(status));
    setTimeout(() => {
      console.log(`no end within ${job.limit} s`);
      console.log(errors.join("\n"));
      resolve(124);
    }, job.limit * 1000).unref();
  });
  await page.exposeFunction("codeAutomationLog", (_type, args) => console.log(...args));
  const remote = (file) => `vscode-remote://${code.host}${file}`;
  const payload = [
    ["extensionDevelopmentPath", remote(job.extension)],
    ["extensionTestsPath", remote(job.tests)],
    ["skipWelcome", "true"],
  ];
  const query = new URLSearchParams({ folder: code.workspace, payload: JSON.stringify(payload) });
  await page.goto(`${code.url}/?${query}`);
  const told = await notices(page, over);
  // What the editor told its user, for the test outside.
  console.log(`notices: ${JSON.stringify(told)}`);
  return await over;
}

/** Every message that was shown while the tests ran. */
async function notices(page, over) {
  const seen = new Set();
  let running = true;
  void over.then(() => {
    running = false;
  });
  while (running) {
    for (const text of await page.locator(".notification-list-item").allInnerTexts()) seen.add(text);
    await Promise.race([over, new Promise((wake) => setTimeout(wake, 300))]);
  }
  return [...seen];
}
