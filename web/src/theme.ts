// Dark, light, or as the system has it; remembered in this browser.
import { signal } from "@preact/signals";

export const THEMES = ["system", "dark", "light"] as const;
export type Theme = (typeof THEMES)[number];
const NAME = "penstock-theme";

export const theme = signal<Theme>("system");
/** What is seen now; canvases draw by it. */
export const seenTheme = signal<"dark" | "light">("dark");

export function startTheme(): void {
  const light = matchMedia("(prefers-color-scheme: light)");
  light.addEventListener("change", apply);
  let kept: string | null = null;
  try {
    kept = localStorage.getItem(NAME);
  } catch {
    // no storage: as the system has it
  }
  theme.value = THEMES.find((name) => name === kept) ?? "system";
  apply();
}

export function chooseTheme(choice: Theme): void {
  theme.value = choice;
  try {
    localStorage.setItem(NAME, choice);
  } catch {
    // for this page only
  }
  apply();
}

function apply(): void {
  const system = matchMedia("(prefers-color-scheme: light)").matches ? "light" : "dark";
  seenTheme.value = theme.value === "system" ? system : theme.value;
  document.documentElement.dataset.theme = seenTheme.value;
}
