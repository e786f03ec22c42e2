// Parts as lanes: when each began, grew and ended, so that what ran side by side is seen so. Pure.
import type { Event } from "../api/types.ts";
import { type Kind, kindOf, partOf } from "./describe.ts";

export interface Lane {
  kind: Kind;
  label: string;
  /** More about it, for a tooltip. */
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

export function lanesOf(events: Event[]): Lane[] {
  return new LaneMaker().make(events);
}

class LaneMaker {
  readonly #lanes = new Map<string, Lane>();
  readonly #calls = new Map<string, Lane>();
  #turn = 0;
  #further: Lane | null = null;

  make(events: Event[]): Lane[] {
    for (const [index, event] of events.entries()) {
      if (event.type === "start") this.#turn++;
      const lane = this.#laneOf(event);
      lane.events.push(index);
      if (event.type.endsWith("-end")) lane.state = "ended";
      if (event.type.endsWith("-cut")) lane.state = "cut";
    }
    return [...this.#lanes.values()];
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
