// VS Code's own small requests (titles, summaries, commit messages): one command has them answered by the utility model.

import * as vscode from "vscode";
import { UTILITY } from "./models.ts";
import { SECTION } from "./settings.ts";

const OFFERED = "utility.offered";
const USE = "Use It";
const MODELS = ["utilityModel", "utilitySmallModel"] as const;
const DEFAULT = "byokUtilityModelDefault"; // what is used where those two name no model: "copilot" unless it is set

const chat = () => vscode.workspace.getConfiguration("chat");

/** Whether this VS Code has the settings, and they name no model. */
function isUnset(): boolean {
  return MODELS.every((name) => chat().inspect(name)?.defaultValue !== undefined && !chat().get<string>(name));
}

/** Name the utility model in VS Code's settings. What the user chose for models that cannot be found stays. */
export async function useUtilityModel(vendor: string): Promise<void> {
  const from = chat();
  const known = MODELS.filter((name) => from.inspect(name)?.defaultValue !== undefined);
  if (!known.length) throw new Error("this VS Code has no setting for utility models");
  for (const name of known) await from.update(name, `${vendor}/${UTILITY}`, vscode.ConfigurationTarget.Global);
  const fallback = from.inspect<string>(DEFAULT);
  if (fallback && fallback.globalValue === undefined)
    await from.update(DEFAULT, "mainAgent", vscode.ConfigurationTarget.Global);
  const said = "Penstock: titles, summaries and commit messages now use the utility model.";
  void vscode.window.showInformationMessage(said);
}

/** Once, when there are models: offer the command. */
export async function offerUtilityModel(memory: vscode.Memento): Promise<void> {
  if (memory.get(OFFERED) || !isUnset()) return;
  await memory.update(OFFERED, true);
  const question = "Penstock: use the cheapest of these models for titles, summaries and commit messages?";
  const answer = await vscode.window.showInformationMessage(question, USE, "Not Now");
  if (answer === USE) await vscode.commands.executeCommand(`${SECTION}.useUtilityModel`);
}
