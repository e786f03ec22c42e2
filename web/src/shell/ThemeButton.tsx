// Steps through system, dark and light.
import { chooseTheme, THEMES, theme } from "../theme.ts";
import { Icon } from "../ui/Icon.tsx";

const SIGNS = { system: "half", dark: "moon", light: "sun" } as const;

export function ThemeButton() {
  const now = theme.value;
  const next = THEMES[(THEMES.indexOf(now) + 1) % THEMES.length] ?? "system";
  return (
    <button
      type="button"
      class="plain bar-theme"
      title={`Theme: ${now}`}
      aria-label={`Theme: ${now}. Change to ${next}`}
      onClick={() => chooseTheme(next)}
    >
      <Icon name={SIGNS[now]} />
    </button>
  );
}
