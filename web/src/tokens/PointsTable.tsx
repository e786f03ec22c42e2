// Turns of a model as tables: those outside their bounds, and the latest.
import { formatRoute } from "../router.ts";
import { formatCount, formatMany } from "../ui/format.ts";
import { fullMoment } from "../ui/plot/look.ts";
import { Sheet } from "../ui/Sheet.tsx";
import { visibleText } from "../ui/visibleText.ts";
import { errorOf, type ModelTokens, methodOf, outliers, type Point, signed, within } from "./estimates.ts";

const MOST = 50;
const MOST_OUTLIERS = 10;

/** The latest turns. */
export function PointsTable({ one }: { one: ModelTokens }) {
  const latest = one.points.slice(-MOST).reverse();
  return (
    <details class="times">
      <summary>{`The latest ${latest.length === 1 ? "turn" : formatMany(latest.length, "turn")}, as a table`}</summary>
      <Turns caption={`Estimates for ${visibleText(one.model)}`} points={latest} />
    </details>
  );
}

/** The turns outside their bounds, the farthest off first. */
export function OutliersTable({ one }: { one: ModelTokens }) {
  const found = outliers(one.points);
  if (found.length === 0) return null;
  const shown = found.slice(0, MOST_OUTLIERS);
  const many = `${found.length} of ${formatMany(one.points.length, "turn")} lay outside their bounds`;
  return (
    <section aria-label="Outside the bounds">
      <h3 class="tokens-head">
        {many}
        {found.length > shown.length && <span>{`, the ${shown.length} farthest off:`}</span>}
      </h3>
      <Turns caption={`Estimates for ${visibleText(one.model)} outside their bounds`} points={shown} />
    </section>
  );
}

function Turns({ caption, points }: { caption: string; points: Point[] }) {
  return (
    <Sheet caption={caption}>
      <thead>
        <tr>
          <th scope="col">Turn</th>
          {["Estimated", "Bounds", "Counted", "Error", "Within", "Method"].map((head) => (
            <th key={head} scope="col" class="figure">
              {head}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {points.map((point, n) => (
          <tr key={`${point.time} ${n}`}>
            <th scope="row">
              <TurnLink point={point} />
            </th>
            <td class="figure">{formatCount(point.estimate)}</td>
            <td class="figure">{`${formatCount(point.low)} – ${formatCount(point.high)}`}</td>
            <td class="figure">{formatCount(point.actual)}</td>
            <td class="figure">{signed(errorOf(point))}</td>
            <td class={within(point) ? "figure" : "figure outside"}>{within(point) ? "yes" : "no"}</td>
            <td class="figure">{methodOf(point)}</td>
          </tr>
        ))}
      </tbody>
    </Sheet>
  );
}

function TurnLink({ point }: { point: Point }) {
  const time = fullMoment(point.time, 3600);
  return point.id ? <a href={formatRoute("turn", point.id)}>{time}</a> : <span>{time}</span>;
}
