// Plays a turn as it came: frame after frame at their times, or evenly where there are none.
import { useEffect } from "preact/hooks";
import type { TurnModel } from "./model.ts";
import { groupOf } from "./stepping.ts";

/** Frames a second of a turn without times. */
const EVEN = 20;

export function usePlay(model: TurnModel): void {
  const [playing, speed] = [model.playing.value, model.speed.value];
  useEffect(() => {
    if (!playing) return;
    const from = startOf(model);
    const began = performance.now();
    let request = requestAnimationFrame(function draw(now) {
      if (advance(model, from, ((now - began) / 1000) * speed)) request = requestAnimationFrame(draw);
    });
    return () => {
      cancelAnimationFrame(request);
      model.playedTo.value = null;
    };
  }, [model, playing, speed]);
}

/** The frame to play from: this one, or the first if all has been seen. */
function startOf(model: TurnModel): number {
  const place = model.place.value;
  const last = model.order.value.counts.frames - 1;
  const frame = place ? Math.min(groupOf(model.order.value, place), last) : last;
  return frame >= last ? -1 : frame;
}

/** Goes to where the time has come to; false at the end. */
function advance(model: TurnModel, from: number, seconds: number): boolean {
  const clock = model.clock.value;
  const last = model.order.value.counts.frames - 1;
  const time = (from < 0 ? 0 : clock.timeOf(from)) + seconds;
  const frame = clock.timed ? clock.frameAt("time", time / clock.duration) : Math.floor(from + 1 + seconds * EVEN);
  if (frame >= last) {
    model.toEnd();
    return false;
  }
  if (clock.timed) model.playedTo.value = time;
  // Before the first frame nothing has come: place -1.
  const index = Math.max(frame, from);
  if (model.place.value?.column !== "frames" || model.place.value.index !== index) {
    model.place.value = { column: "frames", index };
  }
  return true;
}
