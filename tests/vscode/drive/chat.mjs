// The Chat view, as a person would use it: node chat.mjs JOB.json
// A job: {work, settings, env, limit, vsix, shots, results, scenes: [{name, model, prompt, width?}]}. Writes what each scene
// showed to `results`, and a picture of it to the folder `shots`.
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { SERVER, startBrowser, startCode } from "./code.mjs";

const job = JSON.parse(fs.readFileSync(process.argv[2], "utf8"));
const LIMIT = 60_000;
install();
const code = await startCode(job.work, job);
const browser = await startBrowser();
const page = await browser.newPage({ viewport: { width: 760, height: 640 }, deviceScaleFactor: 1 });
const found = {};
let exit = 1;
try {
  await withoutSignIn();
  await page.goto(`${code.url}/?${new URLSearchParams({ folder: code.workspace })}`);
  await page.waitForSelector(".statusbar-item:has-text('Penstock')", { timeout: LIMIT });
  for (const scene of job.scenes) found[scene.name] = await play(scene);
  exit = 0;
} catch (error) {
  console.log(String(error));
  await shot("failed");
} finally {
  fs.writeFileSync(job.results, JSON.stringify(found, undefined, 2));
  await browser.close();
  code.stop();
}
process.exit(exit);

/** The packed extension, by the editor's own means. */
function install() {
  const folders = [
    "--extensions-dir",
    path.join(job.work, "extensions"),
    "--user-data-dir",
    path.join(job.work, "data"),
  ];
  const env = { ...process.env, HOME: path.join(job.work, "home"), XDG_CONFIG_HOME: path.join(job.work, "home", "c") };
  execFileSync(process.execPath, [SERVER, "--install-extension", job.vsix, ...folders], { env, stdio: "pipe" });
}

/** The chat extension that comes with the editor works without an account once it thinks that it was asked. */
async function withoutSignIn() {
  await page.goto(`${code.url}/healthz`);
  await page.evaluate(
    () =>
      new Promise((resolve, reject) => {
        const opening = indexedDB.open("vscode-web-state-db-global", 1);
        opening.onupgradeneeded = () => opening.result.createObjectStore("ItemTable");
        opening.onerror = () => reject(opening.error);
        opening.onsuccess = () => {
          const write = opening.result.transaction("ItemTable", "readwrite");
          write.objectStore("ItemTable").put("true", "builtinChatExtensionEnablementMigration");
          write.oncomplete = () => {
            opening.result.close();
            resolve();
          };
        };
      }),
  );
}

async function play({ name, model, prompt, picker, open }) {
  await page.keyboard.press("Control+L"); // a chat of its own
  await pick(model, picker);
  await page.click(".interactive-input-part .monaco-editor");
  await page.keyboard.type(prompt);
  await page.keyboard.press("Enter");
  const shown = await answered();
  const unfolded = open ? await unfold(open) : "";
  await shot(name);
  return { said: shown, unfolded, status: (await page.textContent(".statusbar-item:has-text('Penstock')"))?.trim() };
}

/** What was folded away is looked at, too: the editor folds it a moment after the end. */
async function unfold(labels) {
  const last = page.locator(".interactive-response").last();
  for (const label of labels) {
    await page.waitForTimeout(1500);
    const line = last.locator(`text=${label}`).last();
    if (await visible(line)) await line.click();
  }
  return said(last);
}

async function pick(model, picker) {
  await page.waitForSelector(".model-picker-name", { timeout: LIMIT });
  const row = `.monaco-list-row.action[aria-label^='${model},']`;
  const until = Date.now() + LIMIT;
  while (Date.now() < until) {
    await page.click(".model-picker-name");
    const more = page.locator(".chat-model-picker-section-toggle");
    if (!(await visible(page.locator(row))) && (await visible(more))) await more.click();
    if (await visible(page.locator(row))) {
      await page.locator(row).first().hover();
      if (picker) await shot(picker);
      await page.locator(row).first().click();
      return;
    }
    await page.keyboard.press("Escape");
  }
  throw new Error(`the picker has no ${model}`);
}

function visible(locator) {
  const shown = locator.first().waitFor({ state: "visible", timeout: 1500 });
  return shown.then(
    () => true,
    () => false,
  );
}

/** Wait for the answer, allowing what the editor asks to be allowed. */
async function answered() {
  const last = page.locator(".interactive-response").last();
  const until = Date.now() + LIMIT;
  while (Date.now() < until) {
    const allow = page.locator(".monaco-button:text-is('Allow'):visible");
    if (await allow.count()) {
      await shot("allow");
      await allow.first().click();
    }
    const loading = await page.locator(".interactive-response.chat-response-loading").count();
    if (!loading && (await last.count()) && (await said(last))) return said(last);
    await page.waitForTimeout(250);
  }
  throw new Error(`no answer within ${LIMIT / 1000} s`);
}

/** What a person reads: text as it is laid out. */
async function said(place) {
  return (await place.innerText()).trim();
}

async function shot(name) {
  await page.waitForTimeout(600);
  await page.screenshot({ path: path.join(job.shots, `${name}.png`) });
}
