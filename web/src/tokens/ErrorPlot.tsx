// The error of each estimate over time: points, their rolling median, and the errors that the bounds allow.
import { useMemo } from "preact/hooks";
import type uPlot from "uplot";
import { axis, type Look, PADDING, timeAxis } from "../ui/plot/look.ts";
import { type Build, Plot } from "../ui/plot/Plot.tsx";
import {
  allowedErrors,
  errorAxis,
  errorOf,
  type Method,
  methodOf,
  type Point,
  rollingMedian,
  signed,
  WHOLE,
  within,
} from "./estimates.ts";
import { PointTip } from "./PointTip.tsx";

/** How the points are placed from left to right: by their time, or one after the other. */
export type Spacing = "time" | "turn";
/** The colours of methods, as numbers of the theme's series. */
export const METHOD_COLOURS: Record<Method, number> = { actual: 4, hybrid: 3, estimated: 1 };
const LINEAR_UP_TO = 0.2; // of an axis that is not linear
const STILL: uPlot.Cursor = { y: false, drag: { x: false, y: false }, points: { show: false } };

interface Props {
  points: Point[];
  spacing: Spacing;
  label: string;
}

export function ErrorPlot({ points, spacing, label }: Props) {
  const data = useMemo(() => columns(points, spacing), [points, spacing]);
  const build: Build = useMemo(
    () => (look) => ({
      padding: PADDING,
      scales: { x: { time: false, range: xRange(points, spacing) }, y: yScale(points) },
      axes: [xAxis(look, spacing), yAxis(look, points)],
      bands: [{ series: [1, 2], fill: `${look.accent}26` }],
      series: [
        {},
        { ...hidden(), spanGaps: true },
        { ...hidden(), spanGaps: true },
        dots(look, "estimated"),
        dots(look, "hybrid"),
        dots(look, "actual"),
        hidden(),
        { stroke: look.ink, width: 2, points: { show: false } },
      ],
      cursor: STILL,
      hooks: { drawAxes: [zeroLine(look)], draw: [diamonds(look)] },
    }),
    [points, spacing],
  );
  return <Plot build={build} data={data} height={280} label={label} tip={(n) => <PointTip point={points[n]} />} />;
}

/** The band is that of whole estimates: counts that are known in part have far narrower bounds. */
export function hasBand(point: Point): boolean {
  return methodOf(point) === "estimated";
}

const OUTSIDE = 6; // the series of points outside their bounds

function columns(points: Point[], spacing: Spacing): uPlot.AlignedData {
  const errors = points.map(errorOf);
  const only = (wanted: (point: Point) => boolean) =>
    points.map((point, n) => (wanted(point) ? (errors[n] ?? null) : null));
  const bound = (upper: 0 | 1) => points.map((point) => (hasBand(point) ? allowedErrors(point)[upper] : null));
  const inside = (method: Method) => only((point) => within(point) && methodOf(point) === method);
  return [
    points.map((point, n) => (spacing === "time" ? point.time : n + 1)),
    bound(1),
    bound(0),
    inside("estimated"),
    inside("hybrid"),
    inside("actual"),
    only((point) => !within(point)),
    rollingMedian(errors),
  ];
}

function hidden(): uPlot.Series {
  return { stroke: "transparent", width: 0, points: { show: false } };
}

function dots(look: Look, method: Method): uPlot.Series {
  const colour = look.series[METHOD_COLOURS[method] - 1] ?? look.accent;
  return { stroke: colour, width: 0, paths: () => null, points: { show: true, size: 6, fill: colour, width: 0 } };
}

function xRange(points: Point[], spacing: Spacing): [number, number] {
  if (spacing === "turn") return [0.5, points.length + 0.5];
  const [first, last] = [points[0]?.time ?? 0, points.at(-1)?.time ?? 0];
  const margin = Math.max(60, (last - first) * 0.02);
  return [first - margin, last + margin];
}

function xAxis(look: Look, spacing: Spacing): uPlot.Axis {
  if (spacing === "time") return timeAxis(look);
  return axis(look, { label: "turn", labelSize: 16, size: 30, grid: { show: false }, incrs: WHOLE });
}

function yScale(points: Point[]): uPlot.Scale {
  const { range, splits } = errorAxis(points);
  return splits ? { range, distr: 4, asinh: LINEAR_UP_TO } : { range };
}

function yAxis(look: Look, points: Point[]): uPlot.Axis {
  const { splits } = errorAxis(points);
  const values = (_: uPlot, found: number[]) => found.map(signed);
  return axis(look, { size: 60, values, ...(splits && { splits: () => splits, filter: (_, found) => found }) });
}

/** The line of estimates that are right. */
function zeroLine(look: Look): (plot: uPlot) => void {
  return (plot) => {
    const { ctx, bbox } = plot;
    const top = Math.round(plot.valToPos(0, "y", true)) + 0.5;
    ctx.save();
    ctx.strokeStyle = look.soft;
    ctx.lineWidth = devicePixelRatio;
    ctx.beginPath();
    ctx.moveTo(bbox.left, top);
    ctx.lineTo(bbox.left + bbox.width, top);
    ctx.stroke();
    ctx.restore();
  };
}

/** Points outside their bounds have another shape, for readers who cannot tell the colours apart. */
function diamonds(look: Look): (plot: uPlot) => void {
  return (plot) => {
    const [xs, errors] = [plot.data[0], plot.data[OUTSIDE]];
    const { ctx } = plot;
    const reach = 5 * devicePixelRatio;
    ctx.save();
    ctx.fillStyle = look.bad;
    for (const [n, error] of (errors ?? []).entries()) {
      if (error === null || error === undefined) continue;
      const [left, top] = [plot.valToPos(xs[n] ?? 0, "x", true), plot.valToPos(error, "y", true)];
      ctx.beginPath();
      ctx.moveTo(left, top - reach);
      ctx.lineTo(left + reach, top);
      ctx.lineTo(left, top + reach);
      ctx.lineTo(left - reach, top);
      ctx.fill();
    }
    ctx.restore();
  };
}
