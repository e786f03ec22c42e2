// Why there is nothing to compare, and what must happen. Pure.
import { formatMany } from "../ui/format.ts";

/** What the gateway saw: whether estimates are on, all requests, and those that a provider counted. */
export interface Seen {
  sampling: boolean;
  turns: number;
  counted: number;
}

interface Words {
  title: string;
  text: string;
  /** Whether one turn more would help. */
  tries: boolean;
}

export function explainEmpty(journal: boolean, seen: Seen | undefined): Words {
  if (!journal) {
    const text = "Estimates are kept in the journal. Set journal.path in penstock.toml, and start the gateway again.";
    return { title: "The journal is off", text, tries: false };
  }
  if (seen && !seen.sampling) {
    const text =
      "The gateway compares no estimates. Remove features.estimates = false from penstock.toml, and start the gateway again.";
    return { title: "Estimates are off", text, tries: false };
  }
  if (!seen || seen.turns === 0) {
    const text =
      "Ask a model something through this gateway. Once a provider has counted a prompt, its estimate appears here beside that count.";
    return { title: "Nothing to compare yet", text, tries: true };
  }
  if (seen.counted === 0) {
    const text = `${requests(seen.turns)} in the last 30 days, and no provider told the input tokens of any. An estimate is compared when a provider tells its usage: packaged answers and broken turns have none.`;
    return { title: "No provider has counted a prompt", text, tries: true };
  }
  const text = `${requests(seen.counted)} with a count in the last 30 days, and none was compared yet. A sample of turns is compared: at most two a second, requests up to 128 KB.`;
  return { title: "Nothing to compare yet", text, tries: true };
}

function requests(count: number): string {
  return count === 1 ? "There was one request" : `There were ${formatMany(count, "request")}`;
}
