// The official test runner of VS Code, in a real one: node runner.mjs JOB.json
// A job: {work, extension, tests, suites, settings, env, limit, trust, opened}. `opened` maps suites to the workspace file that is opened
// instead of the folder. Runs each suite in a window of its own, one after the other,
// and prints what the tests print, and what a person was told; exits as the tests do. The tests inside may ask what the
// page shows: see eye.mjs.
import fs from "node:fs";
import { startBrowser, startCode } from "./code.mjs";
import { openEye } from "./eye.mjs";

const job = JSON.parse(fs.readFileSync(process.argv[2], "utf8"));
const eye = await openEye();
job.env.PENSTOCK_E2E = JSON.stringify({ ...JSON.parse(job.env.PENSTOCK_E2E), eye: eye.url });
const code = await startCode(job.work, job);
const browser = await startBrowser();
const LIMIT = 180_000; // milliseconds until a page is there
const seen = new Set();
let exit = 0;
try {
  const context = await browser.newContext({ viewport: { width: 1200, height: 800 } });
  context.setDefaultNavigationTimeout(LIMIT);
  for (const suite of job.suites) exit ||= await run(context, suite);
} catch (error) {
  console.log(String(error));
  exit = 1;
} finally {
  // What the editor told its user, for the test outside.
  console.log(`notices: ${JSON.stringify([...seen])}`);
  eye.close();
  await browser.close();
  code.stop();
}
process.exit(exit);

async function run(context, suite) {
  const page = await context.newPage();
  const errors = [];
  page.on("pageerror", (error) => errors.push(String(error)));
  const over = new Promise((resolve) => {
    void page.exposeFunction("codeAutomationExit", (status) => resolve(status));
    setTimeout(() => {
      console.log(`${suite}: no end within ${job.limit} s`);
      console.log(errors.join("\n"));
      resolve(124);
    }, job.limit * 1000).unref();
  });
  await page.exposeFunction("codeAutomationLog", (_type, args) => console.log(...args));
  const remote = (file) => `vscode-remote://${code.host}${file}`;
  const payload = [
    ["extensionDevelopmentPath", remote(job.extension)],
    ["skipWelcome", "true"],
  ];
  const file = job.opened?.[suite];
  const opened = file ? { workspace: file } : { folder: code.workspace };
  const address = (rows) => `${code.url}/?${new URLSearchParams({ ...opened, payload: JSON.stringify(rows) })}`;
  eye.look({ page, suite, plain: address(payload), shots: job.shots ?? job.work });
  await page.goto(address([...payload, ["extensionTestsPath", remote(job.tests)]]));
  await notices(page, over);
  const status = await over;
  await page.close();
  return status;
}

/** Every message that was shown while the tests ran. */
async function notices(page, over) {
  let running = true;
  void over.then(() => {
    running = false;
  });
  while (running) {
    for (const text of await page.locator(".notification-list-item").allInnerTexts()) seen.add(text);
    await Promise.race([over, new Promise((wake) => setTimeout(wake, 300))]);
  }
}
