// What keys and teams have used in a period, from the journal: of all keys, whatever the inspector permission.
import { useCallback, useState } from "preact/hooks";
import { formatCost, formatCount } from "../ui/format.ts";
import { Sheet } from "../ui/Sheet.tsx";
import { askAdmin, type UsageReport, type UsageRow } from "./api.ts";
import { useRows } from "./useRows.ts";

const HEADS = ["Requests", "Refused", "Failed", "Tokens in", "Tokens out", "Cost"];
const PERIODS = [
  { seconds: 3600, label: "last hour" },
  { seconds: 86_400, label: "last day" },
  { seconds: 604_800, label: "last 7 days" },
  { seconds: 2_592_000, label: "last 30 days" },
];

export function UsagePane() {
  const [by, setBy] = useState("key");
  const [seconds, setSeconds] = useState(86_400);
  const load = useCallback(() => {
    const now = Date.now() / 1000;
    return askAdmin<UsageReport>(`usage?by=${by}&since=${now - seconds}&until=${now + 60}`);
  }, [by, seconds]);
  const { rows, error, refresh } = useRows(load);
  const shown = [...(rows?.data ?? [])].sort((one, other) => other.cost - one.cost || other.requests - one.requests);
  return (
    <section aria-label="Usage" class="admin-pane">
      <div class="admin-tools">
        <label>
          Group by{" "}
          <select value={by} onChange={(event) => setBy(event.currentTarget.value)}>
            <option value="key">key</option>
            <option value="team">team</option>
          </select>
        </label>
        <label>
          Period{" "}
          <select value={seconds} onChange={(event) => setSeconds(Number(event.currentTarget.value))}>
            {PERIODS.map((one) => (
              <option key={one.seconds} value={one.seconds}>
                {one.label}
              </option>
            ))}
          </select>
        </label>
        <button type="button" onClick={refresh}>
          Refresh
        </button>
      </div>
      {error && (
        <p class="admin-error" role="alert">
          {error}
        </p>
      )}
      {!rows && !error && <p class="soft">Reading…</p>}
      {rows && shown.length === 0 && <p class="soft">There were no requests.</p>}
      {shown.length > 0 && (
        <Sheet caption={`Usage by ${by}`}>
          <thead>
            <tr>
              <th scope="col">{by === "key" ? "Key" : "Team"}</th>
              {HEADS.map((head) => (
                <th key={head} scope="col" class="figure">
                  {head}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {shown.map((row) => (
              <Line key={row.name} row={row} emptyName={by === "key" ? "without a key" : "no team"} />
            ))}
          </tbody>
        </Sheet>
      )}
    </section>
  );
}

function Line({ row, emptyName }: { row: UsageRow; emptyName: string }) {
  const figures = [row.requests, row.refused, row.faults, row.input, row.output].map(formatCount);
  return (
    <tr>
      <th scope="row">{row.name || <span class="soft">{emptyName}</span>}</th>
      {[...figures, costOf(row)].map((cell, place) => (
        <td key={HEADS[place]} class="figure">
          {cell}
        </td>
      ))}
    </tr>
  );
}

/** Dollars, and that some prices are not known. */
function costOf({ cost, unpriced }: UsageRow): string {
  if (unpriced === 0) return formatCost(cost);
  return cost > 0 ? `${formatCost(cost)} + unknown` : "unknown";
}
