// The tokens of each prompt over the turns, how many of them came from the cache, and the model's window.
import { useMemo } from "preact/hooks";
import type uPlot from "uplot";
import { formatManyShort } from "../ui/format.ts";
import { axis, PADDING, roundCount } from "../ui/plot/look.ts";
import { type Build, Plot } from "../ui/plot/Plot.tsx";
import { type Step, share } from "./sessions.ts";

const NEAR = 0.25; // of the window: from there on it is drawn, else it would press the line flat
const WHOLE = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];

export function ContextPlot({ steps }: { steps: Step[] }) {
  const data = useMemo(() => columns(steps), [steps]);
  const build: Build = useMemo(() => {
    const largest = Math.max(1, ...steps.map(({ row }) => row.input ?? 0));
    const window = Math.max(0, ...steps.map((step) => step.window));
    const shown = window > 0 && largest >= window * NEAR;
    const top = Math.max(largest, shown ? window : 0) * 1.1;
    return (look) => ({
      padding: PADDING,
      scales: { x: { time: false, range: [0.5, Math.max(steps.length, 2) + 0.5] }, y: { range: [0, top] } },
      axes: [
        axis(look, { incrs: WHOLE, size: 30, grid: { show: false } }),
        axis(look, { size: 56, values: (_, splits) => splits.map(roundCount) }),
      ],
      series: [
        {},
        { stroke: look.accent, fill: `${look.accent}22`, width: 2, points: { show: true, size: 6, fill: look.accent } },
        { stroke: look.good, fill: `${look.good}33`, width: 1, points: { show: false } },
        { stroke: look.bad, width: shown ? 1.5 : 0, dash: [6, 4], points: { show: false } },
      ],
      cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
    });
  }, [steps]);
  if (!steps.some(({ row }) => row.input !== null)) return <p class="plot-none">No provider has counted a prompt.</p>;
  const label = "Tokens of each prompt, and how many came from the cache; the table below says the same";
  return (
    <Plot build={build} data={data} label={label} tip={(place) => <Tip step={steps[place]} number={place + 1} />} />
  );
}

function columns(steps: Step[]): uPlot.AlignedData {
  return [
    steps.map((_, place) => place + 1),
    steps.map(({ row }) => row.input),
    steps.map(({ row }) => (row.input === null ? null : (row.cached ?? 0))),
    steps.map(({ window }) => window || null),
  ];
}

function Tip({ step, number }: { step: Step | undefined; number: number }) {
  if (!step) return null;
  const { row, window } = step;
  return (
    <>
      <strong>Turn {number}</strong>
      <div>{formatManyShort(row.input, "token")}</div>
      <div>{share(row.cached, row.input)} cached</div>
      {window > 0 && <div>{share(row.input, window)} of the window</div>}
    </>
  );
}
