// The latest turns of a model, as a table.
import { formatCount } from "../ui/format.ts";
import { fullMoment } from "../ui/plot/look.ts";
import { Sheet } from "../ui/Sheet.tsx";
import { type ModelTokens, offBy, signed, within } from "./estimates.ts";

const MOST = 50;

export function PointsTable({ one }: { one: ModelTokens }) {
  const latest = one.points.slice(-MOST).reverse();
  return (
    <details class="times">
      <summary>{`The latest ${latest.length === 1 ? "turn" : `${latest.length} turns`}, as a table`}</summary>
      <Sheet caption={`Estimates for ${one.model}`}>
        <thead>
          <tr>
            <th scope="col">Asked</th>
            {["Estimated", "Bounds", "Counted", "Off by", "Within"].map((head) => (
              <th key={head} scope="col" class="figure">
                {head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {latest.map((point, n) => (
            <tr key={`${point.time} ${n}`}>
              <th scope="row">{fullMoment(point.time, 60)}</th>
              <td class="figure">{formatCount(point.estimate)}</td>
              <td class="figure">{`${formatCount(point.low)} – ${formatCount(point.high)}`}</td>
              <td class="figure">{formatCount(point.actual)}</td>
              <td class="figure">{signed(offBy(point.actual, point.estimate))}</td>
              <td class={within(point) ? "figure" : "figure outside"}>{within(point) ? "yes" : "no"}</td>
            </tr>
          ))}
        </tbody>
      </Sheet>
    </details>
  );
}
