// The Chat view, as a person would use it: node chat.mjs JOB.json
// A job: {work, settings, env, limit, vsix, control, shots, results, scenes: {name: [[step, argument], …]}}. The steps are the
// methods of `STEPS`. Writes what each scene showed to `results`, and its pictures to the folder `shots`.
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { SERVER, startBrowser, startCode } from "./code.mjs";
import { enter } from "./quick_input.mjs";

const job = JSON.parse(fs.readFileSync(process.argv[2], "utf8"));
const LIMIT = 180_000;
const ITEM = ".statusbar-item:has-text('Penstock')";
const began = Date.now();
install();
let code = await startCode(job.work, job);
const browser = await startBrowser();
const context = await browser.newContext({ viewport: { width: 760, height: 640 }, deviceScaleFactor: 1 });
context.setDefaultNavigationTimeout(LIMIT);
const windows = [await context.newPage()];
let page = windows[0];
const found = {};
let exit = 1;
let now = "before the first scene";
let prompted = "";
try {
  await withoutSignIn();
  await page.goto(`${code.url}/?${new URLSearchParams({ folder: code.workspace })}`);
  await page.waitForSelector(ITEM, { timeout: LIMIT });
  for (const [name, steps] of Object.entries(job.scenes)) {
    found[name] = {};
    for (const [step, argument] of steps) {
      now = `${name}: ${step} ${JSON.stringify(argument ?? "")}`;
      const seen = await STEPS()[step](argument, found[name]);
      if (seen !== undefined) found[name][step] = seen;
    }
  }
  exit = 0;
} catch (error) {
  console.log(`${now}: ${error}`);
  await page.screenshot({ path: path.join(job.work, "failed.png") });
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

function STEPS() {
  return {
    /** A chat of its own, with a model if one is named. */
    chat: async (model) => {
      await page.keyboard.press("Control+L");
      await page.waitForSelector(".interactive-response", { state: "detached", timeout: LIMIT });
      await page.waitForTimeout(400);
      if (model) await pick(model);
    },
    /** The list of models, with what is known of one of them. */
    picker: async (model) => {
      const row = await listed(model, false);
      await row.hover();
      await page.waitForTimeout(800);
    },
    /** How often a model is listed. */
    count: async (model) => {
      await listed(model);
      const found = await page.locator(`.monaco-list-row.action[aria-label^='${model},']`).count();
      await page.keyboard.press("Escape");
      return found;
    },
    /** What the list of models says of each. `model` is one of them. */
    names: async (model) => {
      await listed(model, false);
      const rows = page.locator(".monaco-list-row.action[aria-label]");
      const found = await rows.evaluateAll((all) => all.map((row) => row.getAttribute("aria-label")));
      await page.keyboard.press("Escape");
      return found;
    },
    effort,
    ask,
    said: answered,
    /** What was folded away is looked at, too: the editor folds it a moment after the end. */
    unfolded: async (labels) => {
      const last = page.locator(".interactive-response").last();
      for (const label of labels) {
        await page.waitForTimeout(1500);
        const line = last.locator(`text=${label}`).last();
        if (await visible(line)) await line.click();
      }
      await page.mouse.move(5, 5); // the editor adds buttons to what the mouse rests on
      return (await last.innerText()).trim();
    },
    title: async () => (await page.locator(".chat-view-title-label, .chat-view-title").first().innerText()).trim(),
    /** Wait until the status bar says something. */
    status: async (words) => {
      const item = page.locator(ITEM).first();
      await page.waitForFunction(
        ([selector, source]) =>
          new RegExp(source).test(
            [...document.querySelectorAll(".statusbar-item")].find((one) => one.innerText.includes(selector))
              ?.innerText ?? "",
          ),
        ["Penstock", words],
        { timeout: LIMIT },
      );
      return (await item.innerText()).trim();
    },
    /** Wait until something of the answer can be read. */
    begun: async (words) => {
      const place = page.locator(".interactive-response").last().locator(`text=${words}`);
      for (const until = Date.now() + LIMIT; Date.now() < until; await sent()) {
        if (await visible(place)) return;
        await withoutAccount();
      }
      throw new Error(
        `not there within ${LIMIT / 1000} s, but: ${await page.locator(".interactive-session").first().innerText()}`,
      );
    },
    stop: async () => {
      await page.keyboard.press("Control+Escape");
      await page.waitForSelector(".interactive-response.chat-response-loading", { state: "detached", timeout: LIMIT });
    },
    /** Wait until the chats that the editor has stored contain words so many times: it stores them with some delay. */
    stored: async ([words, times]) => {
      let most = 0;
      for (const until = Date.now() + LIMIT; Date.now() < until; await page.waitForTimeout(100)) {
        most = Math.max(0, ...storedChats().map((text) => text.split(words).length - 1));
        if (most >= times) return;
      }
      throw new Error(`${words} is stored ${most} times`);
    },
    /** Load the window anew. The editor keeps with some delay what it showed: a person is slower. */
    reload: async () => {
      await page.waitForTimeout(4000);
      await page.reload();
      await page.waitForSelector(ITEM, { timeout: LIMIT });
      await page.waitForSelector(".interactive-input-part .monaco-editor", { timeout: LIMIT });
      await page.waitForTimeout(5000);
    },
    /** Seconds since the extension was installed. */
    clock: async () => (Date.now() - began) / 1000,
    /** End the editor, and start it again. */
    restart: async () => {
      await page.waitForTimeout(4000); // it writes what it keeps with some delay
      for (const one of windows) await one.goto("about:blank");
      const port = Number(new URL(code.url).port);
      code.stop();
      code = await startCode(job.work, { ...job, port });
      await page.goto(`${code.url}/?${new URLSearchParams({ folder: code.workspace })}`);
      await page.waitForSelector(ITEM, { timeout: LIMIT });
      await page.waitForSelector(".interactive-input-part .monaco-editor", { timeout: LIMIT });
    },
    /** Another window of the same person, or back to the first one (0). */
    window: async (number) => {
      if (!windows[number]) {
        const folder = path.join(job.work, `workspace-${number}`);
        fs.mkdirSync(folder, { recursive: true });
        windows[number] = await context.newPage();
        await windows[number].goto(`${code.url}/?${new URLSearchParams({ folder })}`);
        await windows[number].waitForSelector(ITEM, { timeout: LIMIT });
      }
      page = windows[number];
      await page.bringToFront();
    },
    /** Wait for a box or list with these words; gives all that it shows. */
    box: async (words) => {
      const box = page.locator(".quick-input-widget:visible").first();
      let text = "";
      for (const until = Date.now() + LIMIT; Date.now() < until; await page.waitForTimeout(100)) {
        if (await box.isVisible()) {
          const input = box.locator("input").first();
          const hint = await input.getAttribute("placeholder", { timeout: 1000 }).catch(() => "");
          text = `${await box.innerText().catch(() => "")}\n${hint ?? ""}`;
          if (text.includes(words)) return text;
        }
      }
      throw new Error(`no box says ${words}, but: ${text}`);
    },
    /** Replace what stands in the box, and Enter. */
    fill: (text) => enter(page, text),
    command: async (title) => {
      const row = page.locator(`.quick-input-list .monaco-list-row:has-text('${title}')`);
      for (let tries = 0; tries < 5; tries++) {
        // The list goes when something else takes the focus.
        await page.keyboard.press("F1");
        await page.keyboard.type(title);
        if (await visible(row)) break;
      }
      await row.first().click({ timeout: LIMIT });
    },
    /** Wait for words anywhere, also in a page inside the page; gives what stands around them. */
    shows: async (words) => {
      for (const until = Date.now() + LIMIT; Date.now() < until; await page.waitForTimeout(250)) {
        for (const frame of page.frames()) {
          const text = await frame.evaluate(() => document.body?.innerText ?? "").catch(() => "");
          if (text.includes(words)) return text;
        }
      }
      throw new Error(`nothing says ${words}`);
    },
    /** Texts of elements, each with whether it is seen whole. */
    fits: async (selector) => {
      const filled = page.locator(selector).filter({ hasText: /\S/ });
      await filled.first().waitFor({ timeout: LIMIT });
      return filled.evaluateAll((all) => all.map((one) => [one.innerText, one.scrollWidth <= one.clientWidth]));
    },
    /** Wait until words are gone from the page. */
    hides: async (words) => {
      await page.waitForFunction((text) => !document.body.innerText.includes(text), words, { timeout: LIMIT });
    },
    /** Press a button of a message. */
    press: async (label) => {
      await page
        .locator(`.notification-list-item .monaco-button:text-is('${label}')`)
        .first()
        .click({ timeout: LIMIT });
    },
    keys: async (keys) => {
      for (const key of keys) await page.keyboard.press(key);
    },
    outside: async (command) => {
      const answer = await fetch(`${job.control}/${command}`, { method: "POST", body: "null" });
      if (!answer.ok) throw new Error(await answer.text());
    },
    size: async ([width, height]) => {
      await page.setViewportSize({ width, height });
    },
    shot,
  };
}

/** The row of a model in the list, which is left open. With `search` the list is narrowed down to it first. */
async function listed(model, search = true) {
  await page.waitForSelector(".model-picker-name", { timeout: LIMIT });
  const row = page.locator(`.monaco-list-row.action[aria-label^='${model},']`).first();
  const until = Date.now() + LIMIT;
  while (Date.now() < until) {
    await page.click(".model-picker-name");
    const box = page.locator("input[placeholder='Search models']");
    if (search && (await visible(box))) await box.first().fill(model);
    const more = page.locator(".chat-model-picker-section-toggle");
    if (!(await visible(row)) && (await visible(more))) await more.first().click();
    if (await visible(row)) return row;
    await page.keyboard.press("Escape");
  }
  throw new Error(`the picker has no ${model}`);
}

/** Pick a model, by the keyboard: the list may be drawn anew under the mouse. */
async function pick(model) {
  for (let tries = 0; tries < 5; tries++) {
    await listed(model);
    await page.keyboard.press("Enter");
    if (await visible(page.locator(`.model-picker-name:has-text('${model}')`))) return;
    await page.keyboard.press("Escape");
  }
  throw new Error(`${model} cannot be picked`);
}

/** How much the model is to think, by the editor's own picker. */
async function effort(level) {
  await page.locator(".chat-input-toolbars >> text=Thinking Effort").first().click();
  await page.locator(`.monaco-list-row.action:has-text('${level}')`).first().click({ timeout: LIMIT });
  await page.keyboard.press("Escape");
}

/** The files of the editor's chats. */
function storedChats() {
  const root = path.join(code.data, "User", "workspaceStorage");
  const files = fs.existsSync(root) ? fs.readdirSync(root, { recursive: true }) : [];
  const chats = files.filter((name) => name.includes("chatSessions") && name.endsWith(".jsonl"));
  return chats.map((name) => fs.readFileSync(path.join(root, name), "utf8"));
}

function visible(locator) {
  const shown = locator.first().waitFor({ state: "visible", timeout: 1500 });
  return shown.then(
    () => true,
    () => false,
  );
}

async function ask(prompt) {
  await page.click(".interactive-input-part .monaco-editor");
  await page.keyboard.type(prompt);
  await page.keyboard.press("Enter");
  prompted = prompt;
}

/** A question that stayed in its box is sent once more: the editor takes none while it looks for its models. */
async function sent() {
  const box = page.locator(".interactive-input-part .view-lines").first();
  const words = (await box.count()) ? (await box.innerText()).replaceAll("\u00a0", " ") : "";
  if (!prompted || !words.includes(prompted)) return;
  await page.click(".interactive-input-part .monaco-editor");
  await page.keyboard.press("Enter");
}

/** A question that comes before the editor's own chat extension is up wants an account: it is asked again, a little later. */
async function withoutAccount() {
  if (!(await page.locator(".monaco-dialog-box:visible:has-text('Sign in')").count())) return;
  await page.keyboard.press("Escape");
  await page.waitForTimeout(3000);
  await page.keyboard.press("Control+L");
  await ask(prompted);
}

/** Wait for the answer, allowing what the editor asks to be allowed. What a person reads: text as it is laid out. */
async function answered(allowing) {
  const last = page.locator(".interactive-response").last();
  const until = Date.now() + LIMIT;
  while (Date.now() < until) {
    await withoutAccount();
    await sent();
    const allow = page.locator(".monaco-button:text-is('Allow'):visible");
    if (await allow.count()) {
      if (allowing) await shot(allowing);
      await allow.first().click();
    }
    const loading = await page.locator(".interactive-response.chat-response-loading").count();
    const text = !loading && (await last.count()) ? (await last.innerText()).trim() : "";
    // The last line, with the time and the model, is drawn at the end.
    if (text.includes("\n•\n")) return text;
    await page.waitForTimeout(250);
  }
  const shown = await page.locator("body").innerText();
  throw new Error(`no answer within ${LIMIT / 1000} s, but: ${shown}`);
}

async function shot(name) {
  await page.waitForTimeout(600);
  await page.screenshot({ path: path.join(job.shots, `${name}.png`) });
}
