// Whether bytes are shown as they came or laid out. One choice for the page.
import { signal } from "@preact/signals";

export const raw = signal(false);
