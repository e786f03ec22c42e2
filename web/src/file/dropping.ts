// Files dropped anywhere on the page, and text pasted where nothing else takes it. Leans on opening.ts.
import { signal } from "@preact/signals";
import { go, route } from "../router.ts";
import { opened, openFiles, openText } from "./opening.ts";

/** Whether something is held over the page now. */
export const held = signal(false);

let own = false; // what is dragged began in this page
let inside = 0; // elements entered and not left: leaving the last one leaves the page

export function startDropping(): void {
  addEventListener("dragstart", () => {
    own = true;
  });
  addEventListener("dragend", () => {
    own = false;
  });
  addEventListener("dragenter", (event) => {
    if (!carries(event)) return;
    event.preventDefault();
    inside += 1;
    held.value = true;
  });
  addEventListener("dragleave", (event) => {
    if (!carries(event)) return;
    inside = Math.max(0, inside - 1);
    held.value = inside > 0;
  });
  addEventListener("dragover", (event) => {
    if (!carries(event)) return;
    event.preventDefault();
    if (event.dataTransfer) event.dataTransfer.dropEffect = "copy";
  });
  addEventListener("drop", (event) => {
    inside = 0;
    held.value = false;
    if (!carries(event)) return;
    event.preventDefault();
    take(event.dataTransfer);
  });
  addEventListener("paste", (event) => {
    const writing = event.target instanceof Element && event.target.closest("input, textarea, [contenteditable]");
    if (writing || route.value.view !== "file" || opened.value) return;
    if (take(event.clipboardData)) event.preventDefault();
  });
}

/** Files, or text from another window; not what is dragged within the page. */
function carries(event: DragEvent): boolean {
  const types = event.dataTransfer?.types ?? [];
  if (own) return false;
  return types.includes("Files") || (types.includes("text/plain") && !types.includes("text/uri-list"));
}

function take(data: DataTransfer | null): boolean {
  const files = [...(data?.files ?? [])];
  const text = files.length ? "" : (data?.getData("text/plain") ?? "");
  if (files.length) void openFiles(files);
  else if (text.trim()) void openText(text);
  else return false;
  go("file");
  return true;
}
