// The keys of one turn.
import { type Binding, useKeys } from "../ui/keys.ts";
import type { TurnModel } from "./model.ts";
import { raw } from "./raw.ts";
import { SPEEDS } from "./Transport.tsx";

export function useTurnKeys(
  model: TurnModel,
  onConsumer: ((consumer: string) => void) | undefined,
  onLeave: (() => void) | undefined,
): void {
  const bindings: Binding[] = [
    { keys: ["j", "ArrowDown"], label: "One step on", run: () => model.step(1) },
    { keys: ["k", "ArrowUp"], label: "One step back", run: () => model.step(-1) },
    { keys: ["h", "ArrowLeft"], label: "To the cause", run: () => model.cross(-1) },
    { keys: ["l", "ArrowRight"], label: "To the effect", run: () => model.cross(1) },
    { keys: ["PageDown"], label: "Twenty steps on", run: () => model.step(20) },
    { keys: ["PageUp"], label: "Twenty steps back", run: () => model.step(-20) },
    { keys: ["g", "Home"], label: "To the start", run: () => model.toStart() },
    { keys: ["G", "End"], label: "To the end; a live turn is followed", run: () => model.toEnd() },
    { keys: [" "], label: "Play or pause", run: () => play(model) },
    { keys: ["<", ","], label: "Slower", run: () => faster(model, -1) },
    { keys: [">", "."], label: "Faster", run: () => faster(model, 1) },
    { keys: ["n"], label: "To the next note", run: () => model.toMark(1) },
    { keys: ["N"], label: "To the note before", run: () => model.toMark(-1) },
    { keys: ["w"], label: "To the next gap (a long wait)", run: () => model.toGap() },
    { keys: ["r"], label: "Raw or pretty", run: () => flipRaw() },
    { keys: ["t"], label: "Lanes by time or by order", run: () => flipAxis(model) },
    { keys: ["c"], label: "As the next client gets it", run: () => nextConsumer(model, onConsumer) },
    { keys: ["Escape"], label: "Leave", run: () => (model.place.value ? model.toEnd() : onLeave?.()) },
  ];
  useKeys("This turn", bindings);
}

function play(model: TurnModel): void {
  model.playing.value = !model.playing.value;
}

function flipRaw(): void {
  raw.value = !raw.value;
}

function flipAxis(model: TurnModel): void {
  model.axis.value = model.drawnAxis.value === "time" ? "order" : "time";
}

function faster(model: TurnModel, by: number): void {
  const next = SPEEDS[SPEEDS.indexOf(model.speed.value) + by];
  if (next) model.speed.value = next;
}

function nextConsumer(model: TurnModel, onConsumer: ((consumer: string) => void) | undefined): void {
  const { consumer, consumers } = model.trace.value;
  const next = consumers[(consumers.indexOf(consumer) + 1) % consumers.length];
  if (next && next !== consumer) onConsumer?.(next);
}
