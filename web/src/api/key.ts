// The gateway's key: taken from the address or typed once, kept for this tab only.
import { signal } from "@preact/signals";

const NAME = "penstock-key";

export const key = signal(read());
/** Set when the gateway has refused: the shell asks for a key then. */
export const keyWanted = signal(false);

function read(): string {
  try {
    return sessionStorage.getItem(NAME) ?? "";
  } catch {
    return ""; // a page saved as a file may have no storage
  }
}

export function keepKey(value: string): void {
  key.value = value;
  keyWanted.value = false;
  try {
    sessionStorage.setItem(NAME, value);
  } catch {
    // kept in memory only
  }
}

/** `#key=…`, as the VS Code extension opens the page: kept, and taken out of the address and the history at once. */
export function takeKeyFromAddress(): void {
  const found = /^#\/?key=([^&]*)(?:&to=(.*))?$/.exec(location.hash);
  if (!found) return;
  keepKey(decodeURIComponent(found[1] ?? ""));
  history.replaceState(null, "", `${location.pathname}#/${(found[2] ?? "").replace(/^\//, "")}`);
}
