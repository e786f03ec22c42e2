// The views of the navigation, in their order: the number keys follow it.
import { about } from "../api/about.ts";
import type { Route, View } from "../router.ts";

interface NavigationItem {
  view: View;
  label: string;
}

const ITEMS: NavigationItem[] = [
  { view: "streams", label: "Streams" },
  { view: "runs", label: "Runs" },
  { view: "file", label: "File" },
  { view: "usage", label: "Usage" },
  { view: "tokens", label: "Tokens" },
  { view: "try", label: "Try it" },
  { view: "keys", label: "Manage" },
];

/** Without a gateway there are only files. */
export function listNavigation(): NavigationItem[] {
  return about.value?.live === false ? ITEMS.filter(({ view }) => view === "file") : ITEMS;
}

const INNER: Partial<Record<View, string>> = {
  turn: "Turn",
  send: "Send again",
  compare: "Compare",
  unknown: "No such view",
};

/** The name of a view, for the title of the browser's tab. */
export function labelOf({ view, query }: Route): string {
  if (view === "turn" && query.view === "request") return "Request";
  return ITEMS.find((item) => item.view === view)?.label ?? INNER[view] ?? "";
}
