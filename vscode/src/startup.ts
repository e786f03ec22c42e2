// The notification of a start that takes long, and what is said after it.

import * as vscode from "vscode";
import { Client } from "./gateway/client.ts";
import type { Address } from "./gateway/http.ts";
import type { State } from "./gateway/keeper.ts";
import { readyMessage, StartProgress } from "./progress.ts";
import { claimPrompt } from "./providers/prompt.ts";
import { SECTION } from "./settings.ts";

export interface StartNotice extends vscode.Disposable {
  readonly step: (text: string) => void;
  /** Follow the gateway's state. `address` gives where it is, once it is ready. */
  readonly follow: (state: State, address: () => Promise<Address>) => void;
}

export function startNotice(): StartNotice {
  const progress = new StartProgress({ open, later });
  return {
    step: (text) => progress.step(text),
    follow: (state, address) => {
      if (state.is === "starting") progress.step("Looking for the gateway…");
      else if (state.is === "ready") void finish(progress, address);
      else progress.end();
    },
    dispose: () => progress.dispose(),
  };
}

function open(over: Promise<void>): (text: string) => void {
  let last = "";
  let report: ((text: string) => void) | undefined;
  const options = { location: vscode.ProgressLocation.Notification, title: "Penstock" };
  // The host calls back only once the notification is there: what was said before is said then.
  void vscode.window.withProgress(options, (progress) => {
    report = (message) => progress.report({ message });
    report(last);
    return over;
  });
  return (text) => {
    last = text;
    report?.(text);
  };
}

function later(milliseconds: number, run: () => void): () => void {
  const timer = setTimeout(run, milliseconds);
  return () => clearTimeout(timer);
}

/** Only a start that somebody watched is answered: the models, or what is missing. */
async function finish(progress: StartProgress, address: () => Promise<Address>): Promise<void> {
  if (!progress.end()) return;
  const models = await address()
    .then((found) => new Client(found).models())
    .catch(() => undefined);
  if (!models) return;
  const { text, button } = readyMessage(models);
  if (button && !claimPrompt()) return;
  const pressed = await vscode.window.showInformationMessage(text, ...(button ? [button] : []));
  if (pressed) await vscode.commands.executeCommand(`${SECTION}.addProvider`);
}
