// The usage view as a page: figures, two plots as SVG, tables by model and by day. No scripts: tooltips are titles of the bars.

import { short } from "../status.ts";
import { commandLink, Html, html, page } from "./html.ts";
import {
  byModel,
  cachedText,
  costText,
  type DayUsage,
  daysOf,
  dollars,
  type ModelUsage,
  NO_JOURNAL,
  NO_MODEL,
  sumOf,
  tokensOf,
  tokensText,
  type Usage,
  type UsageRow,
  withCommas,
} from "./usage.ts";

// The colours of the theme, which has them for charts; the last is for all others.
const COLOURS = ["blue", "yellow", "green", "purple", "red"].map((name) => `var(--vscode-charts-${name})`);
const OTHERS = "var(--vscode-descriptionForeground)";
const [WIDTH, HEIGHT, GAP] = [300, 90, 0.25];

export interface UsageState {
  readonly usage?: Usage;
  /** Why there is none. */
  readonly problem?: string;
  readonly period: number;
  readonly today: string;
}

export function usagePage({ usage, problem, period, today }: UsageState, nonce: string): string {
  return page("Usage", nonce, STYLE, bodyOf(usage, problem, period, today));
}

function bodyOf(usage: Usage | undefined, problem: string | undefined, period: number, today: string): Html {
  if (problem) return html`<p>${problem}</p><p>${commandLink("Check Set-up", "penstock.checkSetup")}</p>`;
  if (!usage) return html`<p class="quiet">Asking the gateway…</p>`;
  if (!usage.today) return html`<p>${NO_JOURNAL}</p>`;
  const days = daysOf(usage, today);
  const models = byModel(days);
  if (!models.length)
    return html`<p>Nothing was used in the last ${period} days.</p>
      <p>${commandLink("Open Chat", "workbench.action.chat.open")}</p>`;
  const colours = new Map(models.slice(0, COLOURS.length).map(({ model }, place) => [model, COLOURS[place] ?? OTHERS]));
  return html`
    ${figures(usage.today, sumOf(models), period)}
    <h2>Tokens by day</h2>${plot(days, colours, tokensOf, (value) => `${withCommas(value)} tokens`)}
    <h2>Cost by day</h2>${costPlot(days, colours)}
    <h2>By model</h2>${modelTable(models, colours)}
    <h2>By day</h2>${dayTable(days)}
    <p class="quiet">Cached is the share of the prompts that the provider read from its cache. A cost that is not known is not counted: ≥ means that there is more.</p>`;
}

function figures(today: UsageRow, period: UsageRow, days: number): Html {
  const column = (name: string, row: UsageRow) => html`<div><div class="quiet">${name}</div>
    <div class="figure" title="${costText(row)}">${shortCost(row)}</div>
    <div>${tokensText(row)} tokens</div><div class="quiet">${cachedText(row)} cached</div></div>`;
  return html`<div class="figures">${column("Today", today)}${column(`${days} days`, period)}</div>`;
}

function costPlot(days: readonly DayUsage[], colours: ReadonlyMap<string, string>): Html {
  const known = days.some(({ models }) => models.some(({ cost }) => cost > 0));
  return known
    ? plot(days, colours, ({ cost }) => cost, dollars)
    : html`<p class="quiet">No prices are known for these models.</p>`;
}

/** Bars of each day, a piece for each model. */
function plot(
  days: readonly DayUsage[],
  colours: ReadonlyMap<string, string>,
  value: (row: ModelUsage) => number,
  name: (value: number) => string,
): Html {
  const most = Math.max(...days.map(({ models }) => models.reduce((sum, row) => sum + value(row), 0)), 0);
  if (!most) return html`<p class="quiet">None.</p>`;
  const step = WIDTH / days.length;
  const bars = days.map(({ day, models }, place) => {
    let top = HEIGHT;
    return models
      .filter((row) => value(row) > 0)
      .map((row) => {
        const height = (HEIGHT * value(row)) / most;
        top -= height;
        const box = `x="${fixed(place * step + (step * GAP) / 2)}" y="${fixed(top)}" width="${fixed(step * (1 - GAP))}" height="${fixed(height)}"`;
        const colour = colours.get(row.model) ?? OTHERS;
        return html`<rect ${new Html(box)} fill="${colour}"><title>${day}, ${row.model || NO_MODEL}: ${name(value(row))}</title></rect>`;
      });
  });
  const [first, last] = [days[0]?.day ?? "", days.at(-1)?.day ?? ""];
  return html`<svg viewBox="0 0 ${WIDTH} ${HEIGHT + 4}" preserveAspectRatio="none" role="img" aria-label="${first} to ${last}, at most ${name(most)} a day">
    <line x1="0" x2="${WIDTH}" y1="${HEIGHT}" y2="${HEIGHT}" stroke="var(--vscode-widget-border, currentColor)" stroke-width="1" vector-effect="non-scaling-stroke" />${bars}</svg>
    <div class="axis quiet"><span>${shortDay(first)}</span><span>at most ${name(most)}</span><span>${shortDay(last)}</span></div>`;
}

const fixed = (value: number): string => value.toFixed(2);

const MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");
/** `2026-11-17` as `17 Nov`. */
const shortDay = (day: string): string => {
  const [, month, date] = day.split("-");
  return month && date ? `${Number(date)} ${MONTHS[Number(month) - 1] ?? month}` : day;
};

const HEAD = html`<tr><th></th><th>tokens</th><th>cached</th><th>cost</th></tr>`;
const shortCost = (row: UsageRow): string => costText(row).replace("at least ", "≥ ");
const cells = (row: UsageRow): Html => {
  const tokens = tokensOf(row) ? short(tokensOf(row)) : tokensText(row);
  const exact = `${withCommas(row.input)} in, ${withCommas(row.output)} out`;
  return html`<td title="${exact}">${tokens}</td><td>${cachedText(row)}</td><td title="${costText(row)}">${shortCost(row)}</td>`;
};

function modelTable(models: readonly ModelUsage[], colours: ReadonlyMap<string, string>): Html {
  const rows = models.map((row) => {
    const requests = `${withCommas(row.requests)} ${row.requests === 1 ? "request" : "requests"}`;
    const mark = html`<svg class="mark" viewBox="0 0 10 10" aria-hidden="true"><rect width="10" height="10" fill="${colours.get(row.model) ?? OTHERS}" /></svg>`;
    return html`<tr><td class="name">${mark} ${row.model || NO_MODEL}<div class="quiet">${requests}</div></td>${cells(row)}</tr>`;
  });
  return html`<table>${HEAD}${rows}</table>`;
}

function dayTable(days: readonly DayUsage[]): Html {
  const used = days.filter(({ models }) => models.length).toReversed();
  return html`<table>${HEAD}${used.map(({ day, models }) => html`<tr><td>${shortDay(day)}</td>${cells(sumOf(models))}</tr>`)}</table>`;
}

const STYLE = `
body { padding: 0 12px 12px; }
.figures { display: flex; gap: 24px; margin-top: 8px; }
.figure { font-size: 1.6em; font-weight: 600; line-height: 1.3; }
svg { display: block; width: 100%; height: 90px; }
svg.mark { display: inline-block; width: 9px; height: 9px; }
.axis { display: flex; justify-content: space-between; gap: 8px; font-size: .9em; }
td, th { padding: 2px 0 2px 8px; vertical-align: top; text-align: right; font-variant-numeric: tabular-nums; }
td:first-child, th:first-child { padding-left: 0; text-align: left; }
tr + tr td { border-top: 1px solid var(--vscode-widget-border, transparent); }
td:not(.name), th { white-space: nowrap; }
`;
