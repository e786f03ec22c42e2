// Shown while a file is held over the page.
import { held } from "./dropping.ts";
import "./file.css";

export function DropOverlay() {
  if (!held.value) return null;
  return (
    <div class="drop-overlay" aria-hidden="true">
      <p>Drop it to see what it holds</p>
    </div>
  );
}
