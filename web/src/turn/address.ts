// The chosen frame, event or output in the address: `?at=event-24`, by the number that the page shows. Pure.
import type { Column, Place } from "./order.ts";

const WORDS: Record<Column, string> = { frames: "frame", events: "event", outputs: "output" };

export function formatPlace(place: Place | null): string {
  return place ? `${WORDS[place.column]}-${place.index + 1}` : "";
}

export function parsePlace(text: string): Place | null {
  const found = /^(frame|event|output)-(\d{1,9})$/.exec(text);
  const column = (Object.keys(WORDS) as Column[]).find((name) => WORDS[name] === found?.[1]);
  return found && column && Number(found[2]) > 0 ? { column, index: Number(found[2]) - 1 } : null;
}
