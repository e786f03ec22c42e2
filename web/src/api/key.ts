// The gateway's key: taken from the address or typed once, kept for this tab only.
import { signal } from "@preact/signals";
import { decode } from "../router.ts";

const NAME = "penstock-key";

export const key = signal(read(NAME));
/** Set when the gateway has refused: the shell asks for a key then. */
export const keyWanted = signal(false);

function read(name: string): string {
  try {
    return sessionStorage.getItem(name) ?? "";
  } catch {
    return ""; // a page saved as a file may have no storage
  }
}

export function keepKey(value: string): void {
  key.value = value;
  keyWanted.value = false;
  keep(NAME, value);
}

const SESSION_NAME = "penstock-session";
/** What a gateway without keys asks for: the token of the link that `penstock serve` prints. */
export const session = signal(read(SESSION_NAME));
/** Set when the gateway has refused for want of it. */
export const sessionWanted = signal(false);

export function keepSession(value: string): void {
  session.value = value;
  sessionWanted.value = false;
  keep(SESSION_NAME, value);
}

function keep(name: string, value: string): void {
  try {
    sessionStorage.setItem(name, value);
  } catch {
    // kept in memory only
  }
}

/** `#key=…`, as the VS Code extension opens the page, or `#session=…`, as `penstock serve` prints it: kept, and taken out
 * of the address and the history at once. */
export function takeKeyFromAddress(): void {
  const found = /^#\/?(key|session)=([^&]*)(?:&to=(.*))?$/.exec(location.hash);
  if (!found) return;
  const value = decode(found[2] ?? "");
  if (found[1] === "key") keepKey(value);
  else keepSession(value);
  history.replaceState(null, "", `${location.pathname}#/${(found[3] ?? "").replace(/^\//, "")}`);
}
