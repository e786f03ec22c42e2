// A table of figures that may be wider than its place, and is then scrolled, by keys too.
import "./sheet.css";
import type { ComponentChildren } from "preact";

interface Props {
  /** What the table is of. */
  caption: string;
  children: ComponentChildren;
}

export function Sheet({ caption, children }: Props) {
  return (
    // biome-ignore-start lint/a11y: a box that scrolls must be reachable by keys; it is not a landmark
    <div class="sheet" tabIndex={0} role="group" aria-label={`${caption}: table`}>
      <table>
        <caption class="unseen">{caption}</caption>
        {children}
      </table>
    </div>
    // biome-ignore-end lint/a11y: .
  );
}
