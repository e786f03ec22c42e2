// Where the page is: `#/turn/ID?as=chat` and back. The address is the only state that outlives a reload.
import { signal } from "@preact/signals";

export const VIEWS = ["streams", "runs", "turn", "file", "usage", "tokens", "try", "keys", "send", "compare"] as const;
/** `unknown`: no such view; `id` holds the name. */
export type View = (typeof VIEWS)[number] | "unknown";
/** What people type who know a view by its title. */
const OTHER_NAMES: Record<string, View> = { "": "streams", manage: "keys" };

export interface Route {
  view: View;
  id: string;
  query: Record<string, string>;
}

export function parseRoute(hash: string): Route {
  const [path = "", search = ""] = hash.replace(/^#?\/?/, "").split("?", 2);
  const [first = "", ...rest] = path.split("/");
  const view = VIEWS.find((name) => name === first) ?? (Object.hasOwn(OTHER_NAMES, first) && OTHER_NAMES[first]);
  const query = Object.fromEntries(new URLSearchParams(search));
  if (!view) return { view: "unknown", id: decode(first.split("=", 1)[0] ?? ""), query }; // the part after = may be a secret
  return { view, id: decode(rest.join("/")), query };
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
  const follow = () => {
    const { view, id, query } = parseRoute(location.hash);
    const name = location.hash.replace(/^#?\/?/, "").split(/[/?]/, 1)[0] ?? "";
    if (name && OTHER_NAMES[name] === view) history.replaceState(null, "", formatRoute(view, id, query));
    route.value = { view, id, query };
  };
  addEventListener("hashchange", follow);
  follow();
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
