// The same figures as tables: by name, and over time.
import { formatCost, formatCount, formatDuration } from "../ui/format.ts";
import { fullMoment } from "../ui/plot/look.ts";
import { Sheet } from "../ui/Sheet.tsx";
import { type Series, slots, type Total, type Usage } from "./figures.ts";

const HEADS = ["Turns", "Tokens in", "Tokens out", "Cost", "First token", "95% within", "Duration", "Faults"];

export function NamesTable({ series, total, label }: { series: Series[]; total: Total; label: string }) {
  const order = [...series].sort((a, b) => b.total.requests - a.total.requests);
  return (
    <Sheet caption={`Usage by ${label.toLowerCase()}`}>
      <thead>
        <tr>
          <th scope="col">{label}</th>
          {HEADS.map((head) => (
            <th key={head} scope="col" class="figure">
              {head}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {order.map((one) => (
          <Line key={one.name} name={one.name || "without a name"} total={one.total} />
        ))}
      </tbody>
      {order.length > 1 && (
        <tfoot>
          <Line name="All" total={total} />
        </tfoot>
      )}
    </Sheet>
  );
}

function Line({ name, total }: { name: string; total: Total }) {
  const cells = [
    formatCount(total.requests),
    formatCount(total.input),
    formatCount(total.output),
    formatCost(total.cost),
    formatDuration(total.ttft),
    formatDuration(total.p95),
    formatDuration(total.duration),
    formatCount(total.faults),
  ];
  return (
    <tr>
      <th scope="row">{name}</th>
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
            {["Turns", "Tokens in", "Tokens out", "Cost", "Faults"].map((head) => (
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
              <td class="figure">{formatCount(slot.requests)}</td>
              <td class="figure">{formatCount(slot.input)}</td>
              <td class="figure">{formatCount(slot.output)}</td>
              <td class="figure">{formatCost(slot.cost)}</td>
              <td class="figure">{formatCount(slot.faults)}</td>
            </tr>
          ))}
        </tbody>
      </Sheet>
    </details>
  );
}
