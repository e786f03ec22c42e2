// The box and the list at the top of the editor, as a person uses them who looks before pressing Enter.

const LIMIT = 120_000;
const OPEN = ".quick-input-widget:visible";
export const INPUT = "input[type=text], input[type=password]";

/** Replace what stands in the box, and Enter. In a list, not before its row is marked: it is narrowed down a little later. */
export async function enter(page, text) {
  const input = page.locator(OPEN).locator(INPUT).first();
  for (const end = Date.now() + LIMIT; ; ) {
    await input.focus({ timeout: LIMIT });
    await page.keyboard.press("Control+A");
    await page.keyboard.type(text);
    if ((await input.inputValue()) === text) break; // something else may have taken the focus
    if (Date.now() > end) throw new Error(`the box does not take ${text.length} characters`);
  }
  if (await page.locator(`${OPEN} .quick-input-list`).first().isVisible()) {
    const marked = page.locator(`${OPEN} .quick-input-list .monaco-list-row.focused`);
    await marked.filter({ hasText: text }).first().waitFor({ timeout: LIMIT });
  }
  await input.press("Enter");
}
