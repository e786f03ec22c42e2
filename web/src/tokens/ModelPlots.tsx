// Three plots of one model: by size, turn by turn, and how the correction was learned.
import { useMemo } from "preact/hooks";
import type uPlot from "uplot";
import { formatCount } from "../ui/format.ts";
import { axis, fullMoment, type Look, moment, PADDING, roundCount } from "../ui/plot/look.ts";
import { type Build, Plot } from "../ui/plot/Plot.tsx";
import { bySize, type ModelTokens, offBy, type Point, shareRange, signed, WHOLE, within } from "./estimates.ts";

const STILL: uPlot.Cursor = { y: false, drag: { x: false, y: false } };

export function ModelPlots({ one }: { one: ModelTokens }) {
  return (
    <div class="plots tokens-plots">
      <section class="plot-card" aria-label="Estimate against actual">
        <h2>
          Estimate against actual <span>on the line it is exact; the band is the bounds</span>
        </h2>
        <BySize points={one.points} />
      </section>
      <section class="plot-card" aria-label="Turn by turn">
        <h2>
          Turn by turn <span>the count, as far off its estimate; the bounds behind</span>
        </h2>
        <TurnByTurn points={one.points} />
      </section>
      <section class="plot-card" aria-label="Correction factor">
        <h2>
          Correction factor <span>what estimates are multiplied by, as it was learned</span>
        </h2>
        <Factors history={one.history} />
      </section>
    </div>
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

const FEW = 40; // points between which a band says little by itself

/** With few points, a line from bound to bound at each. */
function whiskers(look: Look, low: number, high: number): (plot: uPlot) => void {
  return (plot) => {
    const [xs, lows, highs] = [plot.data[0], plot.data[low], plot.data[high]];
    if (!lows || !highs || xs.length > FEW) return;
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
    const column = (name: "high" | "low" | "actual" | "estimate") => order.map((point) => Math.max(1, point[name]));
    return [column("actual"), column("high"), column("low"), column("actual"), column("estimate")] as uPlot.AlignedData;
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
      tip={(n) => <Said point={order[n]} />}
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

function TurnByTurn({ points }: { points: Point[] }) {
  const data = useMemo(() => {
    const column = (value: (point: Point) => number | null) => points.map(value);
    return [
      points.map((_, n) => n + 1),
      column(({ high, estimate }) => offBy(high, estimate)),
      column(({ low, estimate }) => offBy(low, estimate)),
      column((point) => (within(point) ? offBy(point.actual, point.estimate) : null)),
      column((point) => (within(point) ? null : offBy(point.actual, point.estimate))),
    ] as uPlot.AlignedData;
  }, [points]);
  const build: Build = useMemo(
    () => (look) => ({
      padding: PADDING,
      scales: { x: { time: false, range: [0.5, points.length + 0.5] }, y: { range: shareRange(points) } },
      axes: [
        axis(look, { label: "turn", labelSize: 16, size: 30, grid: { show: false }, incrs: WHOLE }),
        axis(look, { size: 48, values: (_, splits) => splits.map(signed) }),
      ],
      bands: [band(look, 1)],
      series: [{}, edge(), edge(), dot(look.good), dot(look.bad)],
      cursor: STILL,
      hooks: { draw: [whiskers(look, 2, 1)] },
    }),
    [points],
  );
  return (
    <Plot
      build={build}
      data={data}
      height={240}
      label="How far off each estimate was; the table below says the same"
      tip={(n) => <Said point={points[n]} />}
    />
  );
}

function Factors({ history }: { history: ModelTokens["history"] }) {
  const data = useMemo(
    () => [history.map((_, n) => n + 1), history.map(({ factor }) => factor)] as uPlot.AlignedData,
    [history],
  );
  const build: Build = useMemo(
    () => (look) => ({
      padding: PADDING,
      scales: {
        x: { time: false, range: [0.5, history.length + 0.5] },
        y: { range: (_, min, max) => [Math.min(0.98, min - 0.01), Math.max(1.02, max + 0.01)] },
      },
      axes: [
        axis(look, { label: "turn", labelSize: 16, size: 30, grid: { show: false }, incrs: WHOLE }),
        axis(look, { size: 48, values: (_, splits) => splits.map((split) => `×${split.toFixed(2)}`) }),
      ],
      series: [
        {},
        { stroke: look.accent, width: 2, points: { show: history.length < 60, size: 5, fill: look.accent } },
      ],
      cursor: STILL,
    }),
    [history],
  );
  if (history.length === 0) return <p class="soft">Nothing is learned yet: whole turns with known usage teach it.</p>;
  const tip = (n: number) => (
    <>
      <h4>{fullMoment(history[n]?.time ?? 0, 60)}</h4>
      {`× ${(history[n]?.factor ?? 1).toFixed(3)}`}
    </>
  );
  return <Plot build={build} data={data} height={240} label="The correction factor after each turn" tip={tip} />;
}

function Said({ point }: { point: Point | undefined }) {
  if (!point) return null;
  return (
    <>
      <h4>{moment(point.time, 60)}</h4>
      <dl>
        <dt>Estimated</dt>
        <dd>{formatCount(point.estimate)}</dd>
        <dt>Bounds</dt>
        <dd>{`${formatCount(point.low)} – ${formatCount(point.high)}`}</dd>
        <dt>Counted</dt>
        <dd>{formatCount(point.actual)}</dd>
        <dt>Off by</dt>
        <dd>{signed(offBy(point.actual, point.estimate))}</dd>
      </dl>
    </>
  );
}
