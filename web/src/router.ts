// Where the page is: `#/turn/ID?as=chat` and back. The address is the only state that outlives a reload.
import { signal } from "@preact/signals";

export const VIEWS = ["streams", "runs", "turn", "file", "usage", "tokens", "try", "keys", "send", "compare"] as const;
export type View = (typeof VIEWS)[number];

export interface Route {
  view: View;
  id: string;
  query: Record<string, string>;
}

export function parseRoute(hash: string): Route {
  const [path = "", search = ""] = hash.replace(/^#?\/?/, "").split("?", 2);
  const [first = "", ...rest] = path.split("/");
  const view = VIEWS.find((name) => name === first) ?? "streams";
  return { view, id: decode(rest.join("/")), query: Object.fromEntries(new URLSearchParams(search)) };
}

export function formatRoute(view: View, id = "", query: Record<string, string> = {}): string {
  const search = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== "")).toString();
  return `#/${view}${id ? `/${encodeURIComponent(id)}` : ""}${search ? `?${search}` : ""}`;
}

/** A part of the address; as it is, if it cannot be decoded. */
export function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export const route = signal<Route>(parseRoute(typeof location === "undefined" ? "" : location.hash));

/** Follows the address for as long as the page lives. */
export function followAddress(): void {
  addEventListener("hashchange", () => {
    route.value = parseRoute(location.hash);
  });
  route.value = parseRoute(location.hash);
}

export function go(view: View, id = "", query: Record<string, string> = {}): void {
  location.hash = formatRoute(view, id, query);
}

/** Changes the address without a step in the history: filters and steps are not places to go back to. */
export function replaceQuery(query: Record<string, string>): void {
  changeQuery(query, (address) => history.replaceState(null, "", address));
}

/** The same with a step in the history: back returns to where the reader was. */
export function pushQuery(query: Record<string, string>): void {
  changeQuery(query, (address) => history.pushState(null, "", address));
}

function changeQuery(query: Record<string, string>, write: (address: string) => void): void {
  const address = formatRoute(route.value.view, route.value.id, query);
  write(address);
  route.value = parseRoute(address);
}
