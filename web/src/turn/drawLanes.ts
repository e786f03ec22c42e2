// Draws the lanes on a canvas: a bar from a part's first event to its last, a stroke for every event between. A turn of
// 10,000 events is some thousand strokes, drawn once; the place of the reader is an element above it.
import { type Axis, type Clock, formatSeconds } from "./clock.ts";
import { KINDS, type Kind, kindOf } from "./describe.ts";
import type { Gap } from "./gaps.ts";
import type { Lane } from "./lanes.ts";

export const LANE = 18;
/** Room at both ends of the canvas, so that signs at the very edge are whole. */
export const EDGE = 7;
const INSET = 4;

export type Paints = Record<Kind | "line" | "soft" | "warn", string>;

const paints = new Map<string, Paints>();

/** The colours of a theme, which must be the one that is shown. */
export function readPaints(theme: string): Paints {
  const found = paints.get(theme) ?? computedPaints();
  paints.set(theme, found);
  return found;
}

function computedPaints(): Paints {
  const style = getComputedStyle(document.documentElement);
  const names = [...KINDS, "line", "soft", "warn"] as const;
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()])) as Paints;
}

interface Picture {
  lanes: Lane[];
  types: (event: number) => string;
  clock: Clock;
  axis: Axis;
  width: number;
  paints: Paints;
  ticks: number[];
  gaps: Gap[];
}

export function drawLanes(canvas: HTMLCanvasElement, picture: Picture): void {
  const ratio = devicePixelRatio || 1;
  const height = picture.lanes.length * LANE;
  canvas.width = Math.max(1, Math.round((picture.width + 2 * EDGE) * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  const context = canvas.getContext("2d");
  if (!context) return;
  context.scale(ratio, ratio);
  context.translate(EDGE, 0);
  context.fillStyle = picture.paints.line;
  for (const tick of picture.ticks) context.fillRect(Math.round(tick * picture.width), 0, 1, height);
  if (picture.axis === "time") for (const gap of picture.gaps) drawGap(context, picture, gap, height);
  for (const [row, lane] of picture.lanes.entries()) drawLane(context, picture, lane, row * LANE);
}

/** A band over the time when nothing came, and how long that was. */
function drawGap(context: CanvasRenderingContext2D, { clock, width, paints }: Picture, gap: Gap, height: number): void {
  const end = (clock.timeOf(gap.frame) / clock.duration) * width;
  const length = (gap.wait / clock.duration) * width;
  context.fillStyle = paints.warn;
  context.globalAlpha = 0.1;
  context.fillRect(end - length, 0, length, height);
  context.globalAlpha = 1;
  const label = formatSeconds(gap.wait);
  context.font = "11px system-ui, sans-serif";
  if (context.measureText(label).width + 8 > length) return;
  context.textAlign = "center";
  context.fillText(label, end - length / 2, height - 5);
}

function drawLane(context: CanvasRenderingContext2D, picture: Picture, lane: Lane, top: number): void {
  const at = (event: number) => xOf(picture.clock, picture.axis, picture.width, event);
  const middle = top + LANE / 2;
  const [first, last] = [lane.events[0] ?? 0, lane.events.at(-1) ?? 0];
  if (lane.whole) {
    const [from, to] = [at(first), at(last)];
    context.globalAlpha = 0.28;
    context.fillStyle = picture.paints[lane.kind];
    context.fillRect(from, top + INSET, Math.max(to - from, 2), LANE - 2 * INSET);
    context.globalAlpha = 1;
  }
  let drawn = -10;
  for (const event of lane.events) {
    const x = at(event);
    const type = picture.types(event);
    const moment = !lane.whole || !type.endsWith("-delta");
    if (!moment && x - drawn < 1.5) continue; // the next stroke would cover the same pixels
    drawn = x;
    context.fillStyle = picture.paints[kindOf(type)];
    if (moment) drawMoment(context, type, x, middle);
    else context.fillRect(x - 0.5, top + INSET, 1, LANE - 2 * INSET);
  }
}

/** A beginning and an end are posts; what happens at once is a diamond; a cut is a cross. */
function drawMoment(context: CanvasRenderingContext2D, type: string, x: number, middle: number): void {
  if (type.endsWith("-start") || type.endsWith("-end")) {
    context.fillRect(x - 1, middle - 6, 2, 12);
    return;
  }
  context.beginPath();
  if (type.endsWith("-cut") || type === "fault") {
    context.strokeStyle = context.fillStyle;
    context.lineWidth = 2;
    context.moveTo(x - 4, middle - 4);
    context.lineTo(x + 4, middle + 4);
    context.moveTo(x + 4, middle - 4);
    context.lineTo(x - 4, middle + 4);
    context.stroke();
    return;
  }
  context.moveTo(x, middle - 4.5);
  context.lineTo(x + 4.5, middle);
  context.lineTo(x, middle + 4.5);
  context.lineTo(x - 4.5, middle);
  context.fill();
}

export function xOf(clock: Clock, axis: Axis, width: number, event: number): number {
  return clock.share(axis, { column: "events", index: event }) * width;
}

/** The event of a lane nearest to `x`, if one is near enough to have been meant. */
export function eventNear(lane: Lane, x: number, at: (event: number) => number): number | null {
  let [low, high] = [0, lane.events.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (at(lane.events[middle] ?? 0) < x) low = middle + 1;
    else high = middle;
  }
  const near = [low - 1, low].filter((index) => index >= 0 && index < lane.events.length);
  const best = near.sort((a, b) => Math.abs(at(lane.events[a] ?? 0) - x) - Math.abs(at(lane.events[b] ?? 0) - x))[0];
  if (best === undefined) return null;
  const event = lane.events[best] ?? 0;
  return Math.abs(at(event) - x) <= 6 ? event : null;
}
