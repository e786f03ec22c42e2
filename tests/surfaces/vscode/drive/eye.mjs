// What the page shows, for the tests that run inside the editor and cannot see it: a little server on loopback. Its words are
// the methods of `LOOKS`; whoever asks gets JSON.
import http from "node:http";
import path from "node:path";
import { enter, INPUT } from "./quick_input.mjs";

const LIMIT = 120_000;

export async function openEye() {
  let at;
  const server = http.createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += chunk;
    try {
      const look = LOOKS[request.url.slice(1)];
      response.end(JSON.stringify((await look(at, JSON.parse(body || "null"))) ?? null));
    } catch (error) {
      response.writeHead(500).end(String(error));
    }
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    look: (place) => {
      const visited = [];
      at = { ...place, visited };
      const watch = (page) => {
        visited.push(page.url());
        page.on("framenavigated", (frame) => visited.push(frame.url()));
        page.on("request", (request) => request.isNavigationRequest() && visited.push(request.url()));
      };
      place.page.context().on("page", (page) => page !== place.page && watch(page));
    },
    close: () => server.close(),
  };
}

const ITEM = ".statusbar-item:has-text('Penstock')";

/** Editors draw blanks as characters of their own. */
const plain = (texts, between = "\n") => texts.join(between).replaceAll("\u00a0", " ");

const LOOKS = {
  suite: ({ suite }) => suite,
  /** The extension's item in the status bar. */
  status: async ({ page }) => (await page.locator(ITEM).first().innerText()).trim(),
  /** All that it says to somebody who cannot see it: its text, and what it says to a mouse that rests on it. */
  tip: async ({ page }) => page.locator(`${ITEM} a`).first().getAttribute("aria-label"),
  /** Messages to the user that are shown just now. */
  notices: ({ page }) => page.locator(".notification-list-item").allInnerTexts(),
  /** What the editor of language models says where it has none to list. */
  reason: async ({ page }) => (await page.locator(".models-status-row").allInnerTexts()).join("\n"),
  /** Press a button of a message. */
  press: ({ page }, label) =>
    page.locator(`.notification-list-item .monaco-button:text-is('${label}')`).first().click({ timeout: LIMIT }),
  /** Trust the workspace, as a person does: by a button of the page that `workbench.trust.manage` opens. */
  trust: ({ page }) =>
    page.locator(".workspace-trust-editor .monaco-button:has-text('Trust')").first().click({ timeout: LIMIT }),
  /** Type into whatever has the focus. */
  type: ({ page }, text) => page.keyboard.type(text),
  /** The suggestion that is drawn behind the cursor, whose words have elements of their own. */
  ghost: async ({ page }) => plain(await page.locator("[class*='ghost-text']").allInnerTexts(), ""),
  /** Put the cursor into a box; false while it is not there. */
  focus: async ({ page }, selector) => {
    const box = page.locator(selector).first();
    if (!(await box.isVisible())) return false;
    await box.click();
    return true;
  },
  /** What stands in the boxes of Source Control and of the chat. */
  boxes: async ({ page }) =>
    plain(await page.locator(".scm-input .view-lines, .interactive-input-part .view-lines").allInnerTexts()),
  /** The words of each frame: pages that extensions draw are in frames. */
  frames: async ({ page }) => {
    const inner = page.frames().filter((frame) => frame !== page.mainFrame());
    const texts = inner.map((frame) => frame.evaluate(() => document.body?.innerText ?? "").catch(() => ""));
    return (await Promise.all(texts)).filter(Boolean);
  },
  /** Click a link in a frame. */
  click: async ({ page }, label) => {
    for (const frame of page.frames()) {
      const link = frame.locator(`a:text-is('${label}')`).first();
      if (await link.isVisible().catch(() => false)) return link.click();
    }
    throw new Error(`there is no link ${label}`);
  },
  /** Wait until colours have changed and nothing moves any more. */
  settle: ({ page }) => page.waitForTimeout(1_500),
  walkthrough: async ({ page }) =>
    (await page.locator(".gettingStartedContainer .gettingStartedSlideDetails").allInnerTexts()).join("\n"),
  /** The buttons of the open step of a walkthrough that are not wholly in sight. */
  hidden: ({ page }) =>
    page.locator(".getting-started-step.expanded .monaco-button").evaluateAll((buttons) =>
      buttons
        .filter((button) => {
          const { left, right, width } = button.getBoundingClientRect();
          const column = button.closest(".getting-started-step").getBoundingClientRect();
          return width === 0 || left < column.left - 1 || right > column.right + 1;
        })
        .map((button) => button.textContent),
    ),
  /** What the buttons of the page say to somebody who cannot see them. */
  labels: ({ page }) =>
    page
      .locator(".action-label:visible")
      .evaluateAll((items) => items.map((item) => item.getAttribute("aria-label") ?? "")),
  /** All that the box or list shows that is open just now; empty where none is. */
  box: async ({ page }) => {
    const box = page.locator(".quick-input-widget:visible").first();
    if (!(await box.isVisible())) return "";
    const input = box.locator(INPUT).first();
    const hint = (await input.getAttribute("placeholder").catch(() => "")) ?? "";
    return `${await box.innerText()}\n${hint}`;
  },
  /** Replace what stands in the box, and Enter. */
  enter: ({ page }, text) => enter(page, text),
  /** "Add Models" of the editor of language models, and one of its vendors. */
  addModels: async ({ page }, vendor) => {
    await page.keyboard.press("F1");
    await page.keyboard.type("Chat: Manage Language Models");
    await page.keyboard.press("Enter");
    await page.locator(".monaco-button:has-text('Add Models')").first().click({ timeout: LIMIT });
    await page
      .locator(`.action-label:has-text('${vendor}'), .quick-input-list .monaco-list-row:has-text('${vendor}')`)
      .first()
      .click({ timeout: LIMIT });
  },
  /** The rows of the list that is open: what each says, and whether it is picked. */
  rows: async ({ page }) => {
    const rows = page.locator(".quick-input-list .monaco-list-row");
    await rows.first().waitFor({ timeout: LIMIT });
    return page.locator(".quick-input-widget").first().innerText();
  },
  /** Narrow the list down to one row, and tick or untick it. */
  toggle: async ({ page }, text) => {
    await page.keyboard.type(text);
    await page.locator(`.quick-input-list .monaco-list-row:has-text('${text}')`).first().click({ timeout: LIMIT });
    await page.locator(".quick-input-widget input[type=text]").first().focus();
    await page.keyboard.press("Enter");
  },
  key: ({ page }, name) => page.keyboard.press(name),
  shot: ({ page, shots }, name) => page.screenshot({ path: path.join(shots, `${name}.png`) }),
  /** Go to another window, and come back; a browser without a screen has to be told. */
  leave: ({ page }) =>
    page.evaluate(async () => {
      const has = document.hasFocus;
      for (const [focused, event] of [
        [false, "blur"],
        [true, "focus"],
      ]) {
        document.hasFocus = () => focused;
        window.dispatchEvent(new Event(event));
        await new Promise((wake) => setTimeout(wake, 300));
      }
      document.hasFocus = has;
    }),
  /** Another window of the same folder, in which somebody asks for something; gives when its extension is up. */
  open: async (at) => {
    at.other = await at.page.context().newPage();
    await at.other.goto(at.plain);
    await at.other.waitForSelector(".statusbar-item", { timeout: LIMIT });
    const row = at.other.locator(".quick-input-list .monaco-list-row:has-text('Show Usage and')").first();
    for (let tries = 0; tries < 20 && !(await row.isVisible()); tries++) {
      // Commands are there only once the extensions were read.
      await at.other.keyboard.press("Escape");
      await at.other.keyboard.press("F1");
      await at.other.keyboard.type("Penstock: Show Usage");
      await at.other.waitForTimeout(700);
    }
    await row.click();
    await at.other.waitForSelector(ITEM, { timeout: LIMIT });
  },
  /** Close it as a person does: it is left, so that it can say goodbye. */
  close: async (at) => {
    await at.other?.goto("about:blank");
    await at.other?.close();
  },
  /** Go to an address in a page of its own, and wait for words there; gives where it is then. */
  visit: async ({ page }, [url, words]) => {
    const other = await page.context().newPage();
    await other.goto(url);
    await other.locator(`text=${words}`).first().waitFor({ timeout: LIMIT });
    const address = other.url();
    await other.close();
    return address;
  },
  /** Close whatever was opened beside the editor. */
  shut: async ({ page }) => {
    for (const one of page.context().pages()) if (one !== page) await one.close();
  },
  /** The addresses that pages which were opened beside the editor have been at. */
  opened: ({ visited }) => visited,
};
