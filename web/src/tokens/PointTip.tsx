// What is said of one turn under the pointer.
import { formatCount } from "../ui/format.ts";
import { fullMoment } from "../ui/plot/look.ts";
import { errorOf, methodOf, type Point, signed } from "./estimates.ts";

export function PointTip({ point }: { point: Point | undefined }) {
  if (!point) return null;
  return (
    <>
      <h4>{fullMoment(point.time, 3600)}</h4>
      <dl>
        <dt>Estimated</dt>
        <dd>{formatCount(point.estimate)}</dd>
        <dt>Bounds</dt>
        <dd>{`${formatCount(point.low)} – ${formatCount(point.high)}`}</dd>
        <dt>Counted</dt>
        <dd>{formatCount(point.actual)}</dd>
        <dt>Error</dt>
        <dd>{signed(errorOf(point))}</dd>
        <dt>Method</dt>
        <dd>{methodOf(point)}</dd>
      </dl>
    </>
  );
}
