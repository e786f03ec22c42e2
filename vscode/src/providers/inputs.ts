// Boxes that the commands for providers ask with.

import * as vscode from "vscode";

export const KEEP_ANYWAY: vscode.QuickInputButton = {
  iconPath: new vscode.ThemeIcon("save"),
  tooltip: "Keep it anyway, without the check",
};
export const GET_KEY: vscode.QuickInputButton = {
  iconPath: new vscode.ThemeIcon("link-external"),
  tooltip: "Open the page where keys are made",
};

export interface CheckedInput {
  readonly title: string;
  readonly prompt: string;
  readonly password?: boolean;
  readonly value?: string;
  readonly placeholder?: string;
  /** The page behind a button of the box. */
  readonly page?: string | undefined;
  /** What is wrong with the text; undefined: nothing. It may send a request; the box shows that it is busy. */
  readonly check: (text: string) => Promise<string | undefined>;
}

/**
 * A text that is checked before it is taken. What is wrong stands in the box, which stays open; a button keeps the text
 * without the check. Undefined: the box was closed.
 */
export function checkedInput(options: CheckedInput): Promise<string | undefined> {
  const box = vscode.window.createInputBox();
  const links = options.page ? [GET_KEY] : [];
  Object.assign(box, {
    title: options.title,
    prompt: options.prompt,
    password: options.password ?? false,
    value: options.value ?? "",
    placeholder: options.placeholder ?? "",
    ignoreFocusOut: true,
    buttons: links,
  });
  return new Promise((resolve) => {
    const finish = (text: string | undefined) => {
      resolve(text);
      box.dispose();
    };
    const accept = async () => {
      if (box.busy) return;
      const text = box.value.trim();
      box.busy = true;
      box.enabled = false;
      box.validationMessage = { message: "Checking …", severity: vscode.InputBoxValidationSeverity.Info };
      const wrong = await options.check(text).catch((error: unknown) => String((error as Error).message ?? error));
      if (wrong === undefined) return finish(text);
      box.busy = false;
      box.enabled = true;
      box.validationMessage = { message: wrong, severity: vscode.InputBoxValidationSeverity.Error };
      box.buttons = [...links, KEEP_ANYWAY];
    };
    box.onDidAccept(accept);
    box.onDidChangeValue(() => {
      box.validationMessage = undefined;
      box.buttons = links;
    });
    box.onDidTriggerButton((button) => {
      if (button === KEEP_ANYWAY) finish(box.value.trim());
      else if (options.page) void vscode.env.openExternal(vscode.Uri.parse(options.page));
    });
    box.onDidHide(() => finish(undefined));
    box.show();
  });
}

/** A short text; undefined: the box was closed. `problem` gives what is wrong with it, or nothing. */
export async function textInput(
  title: string,
  prompt: string,
  value: string,
  problem: (text: string) => string = () => "",
): Promise<string | undefined> {
  const text = await vscode.window.showInputBox({
    title,
    prompt,
    value,
    ignoreFocusOut: true,
    validateInput: (typed) => problem(typed.trim()) || undefined,
  });
  return text?.trim();
}

export interface Choice<T> extends vscode.QuickPickItem {
  readonly value: T;
  /** The page behind its button. */
  readonly page?: string | undefined;
}

/** One of several rows; a row with a page has a button for it. Undefined: the list was closed. */
export function choose<T>(title: string, placeholder: string, rows: readonly Choice<T>[]): Promise<T | undefined> {
  const pick = vscode.window.createQuickPick<Choice<T>>();
  Object.assign(pick, { title, placeholder, matchOnDescription: true, matchOnDetail: true, ignoreFocusOut: true });
  pick.items = rows.map((row) => (row.page ? { ...row, buttons: [GET_KEY] } : row));
  return new Promise((resolve) => {
    const finish = (value: T | undefined) => {
      resolve(value);
      pick.dispose();
    };
    pick.onDidAccept(() => finish(pick.selectedItems[0]?.value));
    pick.onDidTriggerItemButton(({ item }) => item.page && vscode.env.openExternal(vscode.Uri.parse(item.page)));
    pick.onDidHide(() => finish(undefined));
    pick.show();
  });
}
