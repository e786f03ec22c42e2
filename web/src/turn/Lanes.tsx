// The parts of a turn as lanes over the axis, and the axis as the handle to move along it.
import { formatMany } from "../ui/format.ts";
import "./lanes.css";
import { useEffect, useRef } from "preact/hooks";
import { seenTheme } from "../theme.ts";
import { useWidth } from "../ui/useWidth.ts";
import { visibleText } from "../ui/visibleText.ts";
import { formatSeconds, LAST_SHARE } from "./clock.ts";
import { drawLanes, EDGE, eventNear, LANE, readPaints, xOf } from "./drawLanes.ts";
import type { Lane } from "./lanes.ts";
import type { TurnModel } from "./model.ts";

export function Lanes({ model }: { model: TurnModel }) {
  const lanes = model.lanes.value;
  const field = useRef<HTMLDivElement>(null);
  const width = useWidth(field);
  return (
    <section class="lanes" aria-label="Parts over time">
      <div class="lanes-scroll">
        <ul class="lane-names" aria-label="Parts">
          {lanes.map((lane, row) => (
            <LaneName key={row} model={model} lane={lane} />
          ))}
        </ul>
        <div class="lane-field" ref={field} style={{ height: `${lanes.length * LANE}px` }}>
          <Drawing model={model} width={width} />
          <Playhead model={model} />
        </div>
      </div>
      <AxisStrip model={model} width={width} />
    </section>
  );
}

function LaneName({ model, lane }: { model: TurnModel; lane: Lane }) {
  const place = model.place.value;
  const here = place?.column === "events" && lane.events.includes(place.index);
  const count = lane.events.length;
  return (
    <li>
      <button
        type="button"
        class={`lane-name kind-${lane.kind}${here ? " here" : ""}`}
        title={`${visibleText(lane.title)}: ${formatMany(count, "event")}`}
        onClick={() => model.choose({ column: "events", index: lane.events[0] ?? 0 })}
      >
        <span class="lane-label">{visibleText(lane.label)}</span>
        {lane.state === "cut" && <span class="lane-state">cut</span>}
      </button>
    </li>
  );
}

function Drawing({ model, width }: { model: TurnModel; width: number }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [lanes, clock, axis, theme] = [model.lanes.value, model.clock.value, model.drawnAxis.value, seenTheme.value];
  const [events, gaps] = [model.trace.value.events, model.gaps.value];
  useEffect(() => {
    if (!canvas.current || !width) return;
    const ticks = clock.ticks(axis, width).map((tick) => tick.at);
    const types = (event: number) => events[event]?.type ?? "";
    drawLanes(canvas.current, { lanes, types, clock, axis, width, paints: readPaints(theme), ticks, gaps });
  }, [lanes, clock, axis, width, theme]);
  const press = (event: PointerEvent) => pick(model, event, width);
  return (
    <canvas
      ref={canvas}
      role="img"
      aria-label={said(lanes)}
      class="lane-canvas"
      style={{ width: `${width + 2 * EDGE}px`, height: `${lanes.length * LANE}px` }}
      onPointerDown={press}
      onPointerMove={(event) => event.buttons === 1 && press(event)}
    />
  );
}

function said(lanes: Lane[]): string {
  return lanes.map((lane) => `${lane.label}: ${formatMany(lane.events.length, "event")}`).join("; ");
}

/** A press on a stroke chooses its event; anywhere else, the frame of that time. */
function pick(model: TurnModel, event: PointerEvent, width: number): void {
  const [clock, axis] = [model.clock.value, model.drawnAxis.value];
  const lane = model.lanes.value[Math.floor(event.offsetY / LANE)];
  const x = event.offsetX - EDGE;
  const near = lane && eventNear(lane, x, (index) => xOf(clock, axis, width, index));
  if (near != null) model.choose({ column: "events", index: near });
  else toShare(model, x / width);
}

function toShare(model: TurnModel, share: number): void {
  const frame = model.clock.value.frameAt(model.drawnAxis.value, Math.max(0, Math.min(share, 1)));
  if (model.order.value.counts.frames) model.choose({ column: "frames", index: Math.max(frame, 0) });
}

function Playhead({ model }: { model: TurnModel }) {
  const place = model.place.value;
  if (!place) return null;
  const [clock, axis, played] = [model.clock.value, model.drawnAxis.value, model.playedTo.value];
  const share = played !== null && axis === "time" ? played / clock.duration : clock.share(axis, place);
  return <div class="playhead" style={{ left: `${share * 100}%` }} />;
}

function AxisStrip({ model, width }: { model: TurnModel; width: number }) {
  const [clock, axis, frames] = [model.clock.value, model.drawnAxis.value, model.order.value.counts.frames];
  const now = model.reach.value.frames;
  const time = clock.timed ? `, ${formatSeconds(clock.timeOf(now - 1))}` : "";
  const press = (event: PointerEvent & { currentTarget: HTMLElement }) => {
    const box = event.currentTarget.getBoundingClientRect();
    toShare(model, (event.clientX - box.left) / box.width);
  };
  return (
    <div class="axis">
      <div class="axis-unit">{axis === "time" ? "seconds" : "frames"}</div>
      <div
        class="axis-strip"
        role="slider"
        tabIndex={0}
        aria-label="Place in the turn"
        aria-valuemin={0}
        aria-valuemax={frames}
        aria-valuenow={now}
        aria-valuetext={`frame ${now} of ${frames}${time}`}
        onPointerDown={press}
        onPointerMove={(event) => event.buttons === 1 && press(event)}
        onKeyDown={(event) => slide(model, event)}
      >
        {clock.ticks(axis, width).map((tick) => (
          <span
            key={tick.label}
            class={tick.at > LAST_SHARE ? "tick last" : "tick"}
            style={{ left: `${tick.at * 100}%` }}
          >
            {tick.label}
          </span>
        ))}
        <Playhead model={model} />
      </div>
    </div>
  );
}

const SLIDES: Record<string, number> = {
  ArrowLeft: -1,
  ArrowDown: -1,
  ArrowRight: 1,
  ArrowUp: 1,
  PageDown: -20,
  PageUp: 20,
};

function slide(model: TurnModel, event: KeyboardEvent): void {
  const by = SLIDES[event.key];
  if (by !== undefined) {
    model.stepIn("frames");
    model.step(by);
  } else if (event.key === "Home") model.toStart();
  else if (event.key === "End") model.toEnd();
  else return;
  event.preventDefault();
}
