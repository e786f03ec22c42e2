// Play, step, and in what.
import { Icon, type IconName } from "../ui/Icon.tsx";
import { type Choice, Switch } from "../ui/Switch.tsx";
import { type Axis, formatSeconds } from "./clock.ts";
import type { TurnModel } from "./model.ts";
import { COLUMNS, type Column } from "./order.ts";

export const SPEEDS = [0.5, 1, 2, 5, 10, 50];
const UNITS: Record<Column, string> = { frames: "frame", events: "event", outputs: "client" };

export function Transport({ model }: { model: TurnModel }) {
  const playing = model.playing.value;
  const play = () => {
    model.playing.value = !playing;
  };
  return (
    <div class="transport" role="toolbar" aria-label="Steps">
      <div class="buttons">
        <Press icon="first" label="To the start" run={() => model.toStart()} />
        <Press icon="back" label="One step back" run={() => model.step(-1)} />
        <Press icon={playing ? "pause" : "play"} label={playing ? "Pause" : "Play"} run={play} />
        <Press icon="next" label="One step on" run={() => model.step(1)} />
        <Press icon="last" label="To the end" run={() => model.toEnd()} />
      </div>
      <label class="speed">
        <span class="unseen">Speed</span>
        <select
          value={model.speed.value}
          onChange={(event) => {
            model.speed.value = Number(event.currentTarget.value);
          }}
        >
          {SPEEDS.map((speed) => (
            <option key={speed} value={speed}>{`${speed}×`}</option>
          ))}
        </select>
      </label>
      <Whereabouts model={model} />
      <Switch
        label="Step by"
        lead="by"
        choices={COLUMNS.map((value) => ({ value, label: UNITS[value] }))}
        chosen={model.column.value}
        onChoose={(column) => model.stepIn(column)}
      />
      {model.clock.value.timed && <AxisSwitch model={model} />}
    </div>
  );
}

function Press({ icon, label, run }: { icon: IconName; label: string; run: () => void }) {
  return (
    <button type="button" aria-label={label} title={label} onClick={run}>
      <Icon name={icon} />
    </button>
  );
}

function Whereabouts({ model }: { model: TurnModel }) {
  const [reach, counts, clock] = [model.reach.value, model.order.value.counts, model.clock.value];
  return (
    <p class="whereabouts">
      {clock.timed && <b>{formatSeconds(clock.timeOf(reach.frames - 1))}</b>}
      <span>{`frame ${reach.frames}/${counts.frames}`}</span>
      <span>{`event ${reach.events}/${counts.events}`}</span>
      <Gaps model={model} />
    </p>
  );
}

/** How often nothing came for long, and the way there. */
function Gaps({ model }: { model: TurnModel }) {
  const gaps = model.gaps.value;
  if (!gaps.length) return null;
  const longest = gaps.reduce((most, { wait }) => Math.max(most, wait), 0);
  return (
    <button type="button" class="link gaps" title="To the next gap" onClick={() => model.toGap()}>
      {gaps.length === 1
        ? `a gap of ${formatSeconds(longest)}`
        : `${gaps.length} gaps, longest ${formatSeconds(longest)}`}
    </button>
  );
}

const AXES: Choice<Axis>[] = [
  { value: "time", label: "time", title: "Lanes by the clock" },
  { value: "order", label: "order", title: "Lanes in order, every frame as wide as the next" },
];

function AxisSwitch({ model }: { model: TurnModel }) {
  const choose = (axis: Axis) => {
    model.axis.value = axis;
  };
  return <Switch label="Axis" choices={AXES} chosen={model.drawnAxis.value} onChoose={choose} />;
}
