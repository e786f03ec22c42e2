// The one entry of the list where there are no models: it says why, and its answer to any question says what to do.

import type { Failure } from "./errors.ts";
import type { Information } from "./models.ts";

export const SETUP_ID = "add-provider";

const NAME = "Add a provider…";
const NO_PROVIDER = "No provider is set up yet";
const STARTING = "The gateway is being started";
const WINDOW = 100_000; // the host needs a number; nothing is sent

export interface SetupAnswer {
  /** One sentence, in Markdown. */
  readonly text: string;
  /** The command that helps, and its title. */
  readonly command: string;
  readonly title: string;
}

/** `answered`: the gateway has answered, and lists no models of a provider. */
export function setupEntry(suffix: string, why: Failure | undefined, answered: boolean): Information {
  const reason = why?.message ?? (answered ? `${NO_PROVIDER}.` : `${STARTING}.`);
  return {
    id: SETUP_ID + suffix,
    name: why || answered ? NAME : "Penstock is starting…",
    family: SETUP_ID,
    version: "1",
    maxInputTokens: WINDOW,
    maxOutputTokens: WINDOW,
    capabilities: { toolCalling: true, imageInput: true },
    isBYOK: true,
    isUserSelectable: true,
    detail: why ? "not available" : answered ? "no provider yet" : "one moment",
    tooltip: `${reason} Ask it anything to see what to do.`,
  };
}

/** What a person is told who asks the entry. */
export function setupAnswer(why: Failure | undefined, answered: boolean): SetupAnswer {
  if (why?.fault === "auth") return reason(why.message, "setKey", "Set Key of the Gateway");
  if (why) return reason(why.message, "checkSetup", "Check Set-up");
  if (!answered) return reason(`${STARTING}: ask again in a moment`, "showLog", "Show Log");
  const [command, title] = ["penstock.addProvider", "Add Provider"];
  return { text: `${NO_PROVIDER}: run ${link(command, title)} to add one, with its key.`, command, title };
}

/** A sentence that says what to do already, and the command that shows more. */
function reason(sentence: string, name: string, title: string): SetupAnswer {
  const command = `penstock.${name}`;
  return { text: `${sentence.replace(/\.$/, "")} (${link(command, title)}).`, command, title };
}

const link = (command: string, title: string): string => `[Penstock: ${title}](command:${command})`;

/** The same for a message, which shows no Markdown: the command is its button. */
export const plainText = (text: string): string => text.replace(/\[([^[\]]*)\]\([^()[\]]*\)/g, "“$1”");
