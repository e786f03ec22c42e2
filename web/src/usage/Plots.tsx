// Four plots on one axis of time: stacked bars for what is counted, lines for how long it took.
import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import uPlot from "uplot";
import { formatCost, formatCount, formatDuration } from "../ui/format.ts";
import { axis, fullMoment, PADDING, roundCount, timeAxis } from "../ui/plot/look.ts";
import { type Build, Plot } from "../ui/plot/Plot.tsx";
import { visibleText } from "../ui/visibleText.ts";
import { type Series, stacked, tokensOf, type Usage } from "./figures.ts";

interface Props {
  usage: Usage;
  hidden: ReadonlySet<string>;
  onToggle: (name: string) => void;
}

export function Plots({ usage, hidden, onToggle }: Props) {
  const colours = useMemo(() => new Map(usage.series.map(({ name }, place) => [name, place])), [usage]);
  const shown = useMemo(
    () => ({ ...usage, series: usage.series.filter(({ name }) => !hidden.has(name)) }),
    [usage, hidden],
  );
  const both = { usage: shown, colours };
  return (
    <>
      <Legend usage={usage} hidden={hidden} onToggle={onToggle} />
      <div class="plots">
        <Card title="Tokens" note="in and out">
          <Bars {...both} lists={tokensOf} format={formatCount} whole none="No tokens were counted." />
        </Card>
        <Card title="Cost" note="where prices are known">
          <Bars {...both} lists={costOf} format={formatCost} none="No price is known for these requests." />
        </Card>
        <Card title="Time to first token" note="median of each slice of time">
          <Lines {...both} />
        </Card>
        <Card title="Errors" note="refused, or broke off">
          <Bars {...both} lists={errorsOf} format={formatCount} whole none="None." />
        </Card>
      </div>
    </>
  );
}

const costOf = ({ cost }: Series) => cost.map((value) => value ?? 0);
const errorsOf = ({ errors }: Series) => errors;
// Steps of an axis on which half a request makes no sense.
const WHOLE = Array.from({ length: 12 }, (_, power) => [1, 2, 5].map((lead) => lead * 10 ** power)).flat();

function Card({ title, note, children }: { title: string; note: string; children: ComponentChildren }) {
  return (
    <section class="plot-card" aria-label={title}>
      <h2>
        {title} <span>{note}</span>
      </h2>
      {children}
    </section>
  );
}

function Legend({ usage, hidden, onToggle }: Props) {
  return (
    <fieldset class="legend">
      <legend class="unseen">Shown in the plots</legend>
      {usage.series.map(({ name }, place) => (
        <button key={name} type="button" aria-pressed={!hidden.has(name)} onClick={() => onToggle(name)}>
          <span class={`swatch swatch-${place + 1}`} aria-hidden="true" />
          {visibleText(name)}
        </button>
      ))}
    </fieldset>
  );
}

interface DrawnProps {
  usage: Usage;
  colours: Map<string, number>;
}

interface BarsProps extends DrawnProps {
  lists: (series: Series) => number[];
  format: (value: number) => string;
  /** Whether there are only whole ones. */
  whole?: boolean;
  /** What is said where there is nothing to draw. */
  none: string;
}

function Bars({ usage, colours, lists, format, whole = false, none }: BarsProps) {
  const values = useMemo(() => usage.series.map(lists), [usage, lists]);
  // The tallest first: each later one is drawn over the lower part of it.
  const data = useMemo(() => [usage.buckets, ...stacked(values).reverse()] as uPlot.AlignedData, [usage, values]);
  const build: Build = useMemo(
    () => (look) => ({
      padding: PADDING,
      scales: { x: { range: span(usage) }, y: { range: (_, __, max) => [0, Math.max(max * 1.1, 1e-6)] } },
      axes: [
        timeAxis(look),
        axis(look, {
          size: 56,
          values: (_, splits) => splits.map(whole ? roundCount : format),
          ...(whole && { incrs: WHOLE }),
        }),
      ],
      series: [
        {},
        ...usage.series
          .map(({ name }) => ({
            fill: look.series[colours.get(name) ?? 0] ?? look.accent,
            width: 0,
            points: { show: false },
            paths: uPlot.paths.bars?.({ size: [0.82, 48], align: 1 }) ?? null,
          }))
          .reverse(),
      ],
      cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
    }),
    [usage],
  );
  const tip = (place: number) => (
    <Said usage={usage} colours={colours} place={place} said={(n) => nonzero(values[n]?.[place] ?? 0, format)} />
  );
  if (values.every((list) => list.every((value) => value === 0))) return <p class="plot-none">{none}</p>;
  return <Plot build={build} data={data} label="Over time; the tables below say the same" tip={tip} />;
}

function Lines({ usage, colours }: DrawnProps) {
  const data = useMemo(() => [middles(usage), ...usage.series.map(({ ttft }) => ttft)] as uPlot.AlignedData, [usage]);
  const build: Build = useMemo(
    () => (look) => ({
      padding: PADDING,
      scales: { x: { range: span(usage) }, y: { range: (_, __, max) => [0, Math.max(max * 1.1, 0.01)] } },
      axes: [
        timeAxis(look),
        axis(look, { size: 56, values: (_, splits) => splits.map((split) => formatDuration(split)) }),
      ],
      series: [
        {},
        ...usage.series.map(({ name }) => {
          const colour = look.series[colours.get(name) ?? 0] ?? look.accent;
          return {
            stroke: colour,
            width: 1.5,
            spanGaps: true,
            points: { show: true, size: 5, fill: colour, width: 0 },
          };
        }),
      ],
      cursor: { y: false, drag: { x: false, y: false } },
    }),
    [usage],
  );
  const tip = (place: number) => (
    <Said
      usage={usage}
      colours={colours}
      place={place}
      said={(n) => {
        const value = usage.series[n]?.ttft[place] ?? null;
        return value === null ? "" : formatDuration(value);
      }}
    />
  );
  return <Plot build={build} data={data} label="Time to the first token; the table below has the medians" tip={tip} />;
}

interface SaidProps extends DrawnProps {
  place: number;
  said: (series: number) => string;
}

function Said({ usage, colours, place, said }: SaidProps) {
  const rows = usage.series.map(({ name }, n) => ({ name, words: said(n) })).filter(({ words }) => words !== "");
  return (
    <>
      <h4>{fullMoment(usage.buckets[place] ?? 0, usage.bucket)}</h4>
      {rows.length === 0 && "nothing"}
      <dl>
        {rows.map(({ name, words }) => [
          <dt key={name}>
            <span class={`swatch swatch-${(colours.get(name) ?? 0) + 1}`} />
            {visibleText(name)}
          </dt>,
          <dd key={`${name} value`}>{words}</dd>,
        ])}
      </dl>
    </>
  );
}

function nonzero(value: number, format: (value: number) => string): string {
  return value === 0 ? "" : format(value);
}

function span({ buckets, bucket }: Usage): [number, number] {
  return [buckets[0] ?? 0, (buckets.at(-1) ?? 0) + bucket];
}

/** A line's points stand in the middle of their bars. */
function middles({ buckets, bucket }: Usage): number[] {
  return buckets.map((time) => time + bucket / 2);
}
