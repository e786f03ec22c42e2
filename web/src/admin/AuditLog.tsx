// Who changed what, the newest first.
import { useState } from "preact/hooks";
import { Sheet } from "../ui/Sheet.tsx";
import { type AuditRow, askAdmin, describe, type Page } from "./api.ts";
import { useRows } from "./useRows.ts";

const load = () => askAdmin<Page<AuditRow>>("audit?limit=100");

export function AuditLog() {
  const { rows, error, refresh } = useRows(load);
  const [older, setOlder] = useState<Page<AuditRow> | null>(null);
  const [problem, setProblem] = useState("");
  const next = (older ?? rows)?.next ?? null;
  const more = async () => {
    try {
      const found = await askAdmin<Page<AuditRow>>(`audit?limit=100&before=${next}`);
      setOlder({ data: [...(older?.data ?? []), ...found.data], next: found.next });
      setProblem("");
    } catch (why) {
      setProblem(describe(why));
    }
  };
  const again = () => {
    setOlder(null);
    refresh();
  };
  return (
    <section aria-label="Audit log" class="admin-pane">
      <div class="admin-tools">
        <button type="button" onClick={again}>
          Refresh
        </button>
      </div>
      {(error || problem) && (
        <p class="admin-error" role="alert">
          {error || problem}
        </p>
      )}
      {rows && (
        <Sheet caption="Changes">
          <thead>
            <tr>
              <th scope="col">When</th>
              <th scope="col">Who</th>
              <th scope="col">What</th>
              <th scope="col">Name</th>
            </tr>
          </thead>
          <tbody>
            {[...rows.data, ...(older?.data ?? [])].map((row) => (
              <tr key={row.id}>
                <td>{new Date(row.time * 1000).toLocaleString("en-GB")}</td>
                <td>{row.actor}</td>
                <th scope="row">{row.action}</th>
                <td>{row.changes.map(({ name }) => name).join(", ")}</td>
              </tr>
            ))}
          </tbody>
        </Sheet>
      )}
      {rows && next !== null && (
        <button type="button" onClick={more}>
          Show older rows
        </button>
      )}
    </section>
  );
}
