// Saves a blob under a name, as if a link had been clicked.

export function save(blob: Blob, name: string): void {
  const address = URL.createObjectURL(blob);
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000); // after the browser has begun to read it
}

/** `turn 1.sse` → `turn-1.html`. */
export function pageName(name: string): string {
  const stem = name
    .replace(/\.[a-z0-9]{1,12}$/i, "")
    .replace(/[^\p{L}\p{N}._-]+/gu, "-")
    .replace(/^[-.]+|(?<!-)-+$/g, "");
  return `${stem.slice(0, 80) || "stream"}.html`;
}
