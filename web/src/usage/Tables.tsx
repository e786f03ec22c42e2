// The same figures as tables: by name, and over time. Counts lead to their requests.
import { formatCost, formatCount, formatDuration } from "../ui/format.ts";
import { fullMoment } from "../ui/plot/look.ts";
import { Sheet } from "../ui/Sheet.tsx";
import { visibleText } from "../ui/visibleText.ts";
import { listAddress, slicePeriod, slots, type Total, type Usage } from "./figures.ts";

const HEADS = ["Requests", "Tokens in", "Tokens out", "Cost", "TTFT", "95% within", "Duration", "Errors"];

export function NamesTable({ usage, label }: { usage: Usage; label: string }) {
  const { names, total, period } = usage;
  return (
    <Sheet caption={`Usage by ${label.toLowerCase()}`}>
      <thead>
        <tr>
          <th scope="col">{label}</th>
          {HEADS.map((head) => (
            <th
              key={head}
              scope="col"
              class="figure"
              title={head === "TTFT" ? "Time to first token, median" : undefined}
            >
              {head}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {names.map((one) => (
          <Line key={one.name} name={one.name} total={one.total} terms={one.query ? [one.query, period] : []} />
        ))}
      </tbody>
      {names.length > 1 && (
        <tfoot>
          <Line name="All" total={total} terms={[period]} />
        </tfoot>
      )}
    </Sheet>
  );
}

/** Dollars, and that some prices are not known. */
function costOf({ cost, unpriced }: Total): string {
  if (cost === null) return unpriced > 0 ? "unknown" : "–";
  return unpriced > 0 ? `${formatCost(cost)} + unknown` : formatCost(cost);
}

function Line({ name, total, terms }: { name: string; total: Total; terms: string[] }) {
  const link = (value: number, ...more: string[]) =>
    terms.length && value > 0 ? <a href={listAddress(...more, ...terms)}>{formatCount(value)}</a> : formatCount(value);
  const cells = [
    link(total.requests),
    formatCount(total.input),
    formatCount(total.output),
    costOf(total),
    formatDuration(total.ttft),
    formatDuration(total.p95),
    formatDuration(total.duration),
    link(total.errors, "state:broken"),
  ];
  return (
    <tr>
      <th scope="row">{visibleText(name)}</th>
      {cells.map((cell, place) => (
        <td key={HEADS[place]} class="figure">
          {cell}
        </td>
      ))}
    </tr>
  );
}

export function TimesTable({ usage }: { usage: Usage }) {
  return (
    <details class="times">
      <summary>Over time, as a table</summary>
      <Sheet caption="Usage over time">
        <thead>
          <tr>
            <th scope="col">From</th>
            {["Requests", "Tokens in", "Tokens out", "Cost", "Errors"].map((head) => (
              <th key={head} scope="col" class="figure">
                {head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {slots(usage).map((slot) => (
            <tr key={slot.time}>
              <th scope="row">{fullMoment(slot.time, usage.bucket)}</th>
              <td class="figure">
                <a href={listAddress(slicePeriod(slot.time, usage.bucket))}>{formatCount(slot.requests)}</a>
              </td>
              <td class="figure">{formatCount(slot.input)}</td>
              <td class="figure">{formatCount(slot.output)}</td>
              <td class="figure">{formatCost(slot.cost)}</td>
              <td class="figure">{formatCount(slot.errors)}</td>
            </tr>
          ))}
        </tbody>
      </Sheet>
    </details>
  );
}
