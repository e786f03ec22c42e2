// Three plots of one model: the error over time, by size, and how the correction was learned.
import { useMemo } from "preact/hooks";
import type uPlot from "uplot";
import { replaceQuery, route } from "../router.ts";
import { axis, fullMoment, type Look, PADDING, roundCount, timeAxis } from "../ui/plot/look.ts";
import { type Build, Plot } from "../ui/plot/Plot.tsx";
import { type Choice, Switch } from "../ui/Switch.tsx";
import { ErrorPlot, hasBand, METHOD_COLOURS, type Spacing } from "./ErrorPlot.tsx";
import { bySize, METHODS, type ModelTokens, methodOf, type Point, signed, WHOLE, within } from "./estimates.ts";
import { PointTip } from "./PointTip.tsx";

const STILL: uPlot.Cursor = { y: false, drag: { x: false, y: false } };
const SPACINGS: Choice<Spacing>[] = [
  { value: "time", label: "by time" },
  { value: "turn", label: "by turn" },
];

export function ModelPlots({ one }: { one: ModelTokens }) {
  const spacing: Spacing = route.value.query.x === "turn" ? "turn" : "time";
  const outside = one.points.filter((point) => !within(point)).length;
  const said = `The error of ${one.points.length} estimates over time. Median ${signed(one.bias)}; ${outside} outside the bounds. The table below has each turn.`;
  return (
    <div class="plots tokens-plots">
      <section class="plot-card wide" aria-label="Error over time">
        <div class="plot-head">
          <h2>
            Error over time <span>above zero the estimate was too high, below it too low</span>
          </h2>
          <Switch
            label="Points in the plot"
            small
            choices={SPACINGS}
            chosen={spacing}
            onChoose={(x) => replaceQuery({ ...route.value.query, x })}
          />
        </div>
        <ErrorPlot points={one.points} spacing={spacing} label={said} />
        <Legend one={one} />
      </section>
      <section class="plot-card" aria-label="Estimate against actual">
        <h2>
          Estimate against actual <span>on the line it is exact; the band is the bounds</span>
        </h2>
        <BySize points={one.points} />
      </section>
      <section class="plot-card" aria-label="Correction factor">
        <h2>
          Correction factor <span>what estimates are multiplied by, as it was learned</span>
        </h2>
        <Factors history={one.history} spacing={spacing} />
      </section>
    </div>
  );
}

function Legend({ one }: { one: ModelTokens }) {
  const used = METHODS.filter((method) => one.points.some((point) => within(point) && methodOf(point) === method));
  return (
    <ul class="plot-legend" aria-label="What the plot shows">
      {used.map((method) => (
        <li key={method}>
          <span class={`swatch round swatch-${METHOD_COLOURS[method]}`} aria-hidden="true" />
          {method}
        </li>
      ))}
      <li>
        <span class="swatch diamond" aria-hidden="true" />
        outside its bounds
      </li>
      <li>
        <span class="swatch stroke" aria-hidden="true" />
        median of the last 15
      </li>
      {one.points.some(hasBand) && (
        <li>
          <span class="swatch band" aria-hidden="true" />
          errors that the bounds of estimates allow
        </li>
      )}
    </ul>
  );
}

function dot(colour: string): uPlot.Series {
  return { stroke: colour, width: 0, paths: () => null, points: { show: true, size: 6, fill: colour, width: 0 } };
}

function edge(): uPlot.Series {
  return { stroke: "transparent", width: 0, points: { show: false } };
}

function band(look: Look, upper: number): uPlot.Band {
  return { series: [upper, upper + 1], fill: `${look.accent}33` };
}

const MAX_BAND_POINTS = 40; // points between which a band says little by itself

/** With few points, a line from bound to bound at each. */
function whiskers(look: Look, low: number, high: number): (plot: uPlot) => void {
  return (plot) => {
    const [xs, lows, highs] = [plot.data[0], plot.data[low], plot.data[high]];
    if (!lows || !highs || xs.length > MAX_BAND_POINTS) return;
    const { ctx } = plot;
    ctx.save();
    ctx.strokeStyle = `${look.accent}88`;
    ctx.lineWidth = devicePixelRatio;
    ctx.beginPath();
    for (const [n, x] of xs.entries()) {
      const left = Math.round(plot.valToPos(x, "x", true)) + 0.5;
      ctx.moveTo(left, plot.valToPos(lows[n] ?? 0, "y", true));
      ctx.lineTo(left, plot.valToPos(highs[n] ?? 0, "y", true));
    }
    ctx.stroke();
    ctx.restore();
  };
}

function BySize({ points }: { points: Point[] }) {
  const order = useMemo(() => bySize(points), [points]);
  const data = useMemo(() => {
    const column = (name: "high" | "low" | "actual") => order.map((point) => Math.max(1, point[name]));
    const only = (inside: boolean) =>
      order.map((point) => (within(point) === inside ? Math.max(1, point.estimate) : null));
    return [
      column("actual"),
      column("high"),
      column("low"),
      column("actual"),
      only(true),
      only(false),
    ] as uPlot.AlignedData;
  }, [order]);
  const build: Build = useMemo(
    () => (look) => ({
      padding: PADDING,
      scales: { x: { time: false, distr: 3 }, y: { distr: 3 } },
      axes: [
        axis(look, { label: "counted by the provider", labelSize: 16, size: 30, space: 50, values: few }),
        axis(look, { label: "estimated", labelSize: 16, size: 48, values: few }),
      ],
      bands: [band(look, 1)],
      series: [
        {},
        edge(),
        edge(),
        { stroke: look.soft, width: 1, dash: [4, 4], points: { show: false } },
        dot(look.accent),
        dot(look.bad),
      ],
      cursor: STILL,
      hooks: { draw: [whiskers(look, 2, 1)] },
    }),
    [order],
  );
  return (
    <Plot
      build={build}
      data={data}
      height={240}
      label="Estimates against counts; the table below has both"
      tip={(n) => <PointTip point={order[n]} />}
    />
  );
}

/** On an axis of powers of ten only some of the lines are named. */
function few(_: uPlot, splits: (number | null)[]): string[] {
  const known = splits.filter((split) => split !== null);
  const narrow = Math.max(...known) / Math.max(1, Math.min(...known)) < 20;
  return splits.map((split) => {
    if (split === null) return "";
    const lead = split / 10 ** Math.floor(Math.log10(split) + 1e-9);
    return Math.abs(lead - 1) < 1e-6 || (narrow && [2, 5].some((name) => Math.abs(lead - name) < 1e-6))
      ? roundCount(split)
      : "";
  });
}

function Factors({ history, spacing }: { history: ModelTokens["history"]; spacing: Spacing }) {
  const data = useMemo(
    () =>
      [
        history.map(({ time }, n) => (spacing === "time" ? time : n + 1)),
        history.map(({ factor }) => factor),
      ] as uPlot.AlignedData,
    [history, spacing],
  );
  const build: Build = useMemo(
    () => (look) => ({
      padding: PADDING,
      scales: {
        x: { time: false, ...(spacing === "turn" && { range: [0.5, history.length + 0.5] as [number, number] }) },
        y: { range: (_, min, max) => [Math.min(0.98, min - 0.01), Math.max(1.02, max + 0.01)] },
      },
      axes: [
        spacing === "time"
          ? timeAxis(look)
          : axis(look, { label: "turn", labelSize: 16, size: 30, grid: { show: false }, incrs: WHOLE }),
        axis(look, { size: 48, values: (_, splits) => splits.map((split) => `×${split.toFixed(2)}`) }),
      ],
      series: [
        {},
        { stroke: look.accent, width: 2, points: { show: history.length < 60, size: 5, fill: look.accent } },
      ],
      cursor: STILL,
    }),
    [history, spacing],
  );
  if (history.length === 0)
    return (
      <p class="soft">
        Nothing is learned yet. A turn teaches the factor when it ends well, its provider tells the input tokens, and no
        tool of the provider took part.
      </p>
    );
  const tip = (n: number) => (
    <>
      <h4>{fullMoment(history[n]?.time ?? 0, 3600)}</h4>
      {`× ${(history[n]?.factor ?? 1).toFixed(3)}`}
    </>
  );
  return <Plot build={build} data={data} height={240} label="The correction factor after each turn" tip={tip} />;
}
