// Says that an address names no view, and which views there are.
import { formatRoute } from "../router.ts";
import { visibleText } from "../ui/visibleText.ts";
import { listNavigation } from "./navigation.ts";

const MOST = 60; // characters of the name

export function UnknownView({ name }: { name: string }) {
  const shown = visibleText(name.length > MOST ? `${name.slice(0, MOST)}…` : name);
  return (
    <div class="notice unknown-view">
      <h1>
        There is no view “<bdi>{shown}</bdi>”
      </h1>
      <p>These are there:</p>
      <ul>
        {listNavigation().map(({ view, label }) => (
          <li key={view}>
            <a href={formatRoute(view)}>{label}</a>
          </li>
        ))}
      </ul>
    </div>
  );
}
