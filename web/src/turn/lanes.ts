// Parts as lanes: when each began, grew and ended, so that what ran side by side is seen so. Pure.
import type { Event } from "../api/types.ts";
import { type Kind, kindOf, partOf } from "./describe.ts";

export interface Lane {
  kind: Kind;
  label: string;
  /** How it begins: for a tooltip, and for the name where several have the same. */
  title: string;
  /** Indexes of its events, in order. */
  events: number[];
  /** A stretch from its first event to its last; otherwise single moments. */
  whole: boolean;
  state: "open" | "ended" | "cut";
}

/** More lanes than this are one: a page of lanes shows nothing. */
export const MOST_LANES = 60;
/** Parts of one moment, many of which may come: all of a kind share a lane. */
const MOMENTS = new Map([
  ["source", "sources"],
  ["opaque", "opaque"],
]);
/** What answers a call stands in the call's own lane. */
const ANSWERS = new Set(["result", "ask"]);

export function lanesOf(events: readonly Event[]): Lane[] {
  return new LaneBuilder().extend(events);
}

/** Goes on where it was when there are more events. */
export class LaneBuilder {
  readonly #lanes = new Map<string, Lane>();
  readonly #calls = new Map<string, Lane>();
  #turn = 0;
  #taken = 0;
  #further: Lane | null = null;

  extend(events: readonly Event[]): Lane[] {
    for (; this.#taken < events.length; this.#taken++) {
      const [index, event] = [this.#taken, events[this.#taken]];
      if (!event) continue;
      if (event.type === "start") this.#turn++;
      const lane = this.#laneOf(event);
      lane.events.push(index);
      if (event.type.endsWith("-end")) lane.state = "ended";
      if (event.type.endsWith("-cut")) lane.state = "cut";
    }
    return named([...this.#lanes.values()], events);
  }

  #laneOf(event: Event): Lane {
    const part = partOf(event);
    if (part === null) return this.#lane("turn", { kind: "other", label: "turn", whole: false });
    const answered = ANSWERS.has(event.type) ? this.#calls.get(`${this.#turn} ${event.body.call}`) : undefined;
    if (answered) return answered;
    const moments = MOMENTS.get(event.type);
    if (moments) return this.#lane(moments, { kind: kindOf(event.type), label: moments, whole: false });
    const lane = this.#lane(`${this.#turn} ${part}`, { kind: kindOf(event.type), label: labelOf(event), whole: true });
    if (event.type === "call-start") this.#calls.set(`${this.#turn} ${event.body.id}`, lane);
    return lane;
  }

  #lane(key: string, about: Pick<Lane, "kind" | "label" | "whole">): Lane {
    const found = this.#lanes.get(key);
    if (found) return found;
    if (this.#further || this.#lanes.size >= MOST_LANES) return this.#more();
    const lane: Lane = { ...about, title: about.label, events: [], state: about.whole ? "open" : "ended" };
    this.#lanes.set(key, lane);
    return lane;
  }

  #more(): Lane {
    this.#further ??= {
      kind: "other", label: "further parts", title: "further parts", events: [], whole: false, state: "ended",
    }; // biome-ignore format: a row
    this.#lanes.set("further", this.#further);
    return this.#further;
  }
}

function labelOf(event: Event): string {
  const named = event.body.name ?? event.body.media;
  return typeof named === "string" && named ? named : kindOf(event.type);
}

/** Lanes of the same name are told apart: by a number, and by how they begin. */
function named(lanes: Lane[], events: readonly Event[]): Lane[] {
  const counts = new Map<string, number>();
  for (const { label } of lanes) counts.set(label, (counts.get(label) ?? 0) + 1);
  const numbers = new Map<string, number>();
  return lanes.map((lane) => {
    const start = lane.whole ? beginningOf(lane, events) : "";
    const title = start ? `${lane.label}: ${start}` : lane.label;
    if ((counts.get(lane.label) ?? 0) < 2) return { ...lane, title };
    const number = (numbers.get(lane.label) ?? 0) + 1;
    numbers.set(lane.label, number);
    return { ...lane, title, label: [lane.label, number, start].filter(Boolean).join(" ") };
  });
}

const BEGINNING = 40;
/** The first text among the arguments of a call tells most. */
const FIRST_STRING = /:\s*"([^"\\]{1,40})/;

function beginningOf(lane: Lane, events: readonly Event[]): string {
  let text = "";
  for (const index of lane.events) {
    const { text: said, json } = events[index]?.body ?? {};
    if (typeof said === "string") text += said;
    else if (typeof json === "string" && events[index]?.type.endsWith("-delta")) text += json;
    if (text.length > BEGINNING * 3) break;
  }
  const start = lane.kind === "call" ? (FIRST_STRING.exec(text)?.[1] ?? text) : text;
  return start.trim().replace(/\s+/g, " ").slice(0, BEGINNING);
}
