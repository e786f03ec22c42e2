// Who changed what, the newest first.
import { useCallback, useState } from "preact/hooks";
import { save } from "../file/saving.ts";
import { formatMany } from "../ui/format.ts";
import { Sheet } from "../ui/Sheet.tsx";
import { type AuditRow, askAdmin, describe, type Page, type RecordChange } from "./api.ts";
import { auditFile, describeChange } from "./describeAudit.ts";
import { useRows } from "./useRows.ts";

const SHOWN = 100; // rows at first, and with each click
const MOST_SHOWN = 1000;
const MOST_PAGES = 200; // of a download: 200,000 rows

export function AuditLog() {
  const [limit, setLimit] = useState(SHOWN);
  const load = useCallback(() => askAdmin<Page<AuditRow>>(`audit?limit=${limit}`), [limit]);
  const { rows, error, refresh } = useRows(load);
  const [problem, setProblem] = useState("");
  const [status, setStatus] = useState("");
  const download = async () => {
    setStatus("Reading…");
    try {
      const all = await readAll();
      save(new Blob([auditFile(all)], { type: "application/jsonl" }), "penstock-audit.jsonl");
      setStatus(`${formatMany(all.length, "row is", "rows are")} downloaded.`);
      setProblem("");
    } catch (why) {
      setStatus("");
      setProblem(describe(why));
    }
  };
  return (
    <section aria-label="Audit log" class="admin-pane">
      <div class="admin-tools">
        <button type="button" onClick={refresh}>
          Refresh
        </button>
        <button type="button" onClick={() => void download()}>
          Download
        </button>
        <span role="status" class="soft">
          {status}
        </span>
      </div>
      {(error || problem) && (
        <p class="admin-error" role="alert">
          {error || problem}
        </p>
      )}
      {rows && rows.data.length === 0 && <p class="soft">No changes yet.</p>}
      {rows && rows.data.length > 0 && <Rows rows={rows.data} />}
      {rows && rows.next !== null && limit < MOST_SHOWN && (
        <button type="button" onClick={() => setLimit(limit + SHOWN)}>
          Show older rows
        </button>
      )}
      {rows && rows.next !== null && limit >= MOST_SHOWN && <p class="soft">A download has the older rows too.</p>}
    </section>
  );
}

function Rows({ rows }: { rows: AuditRow[] }) {
  return (
    <Sheet caption="Changes">
      <thead>
        <tr>
          <th scope="col">When</th>
          <th scope="col">Who</th>
          <th scope="col">What</th>
          <th scope="col">Name</th>
          <th scope="col">Values</th>
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={row.id}>
            <td>{new Date(row.time * 1000).toLocaleString("en-GB")}</td>
            <td>{row.actor}</td>
            <th scope="row">{row.action}</th>
            <td>{row.changes.map(({ name }) => name).join(", ")}</td>
            <td class="audit-values">
              {row.changes.map((change) => (
                <Values key={`${change.kind} ${change.name}`} change={change} />
              ))}
            </td>
          </tr>
        ))}
      </tbody>
    </Sheet>
  );
}

function Values({ change }: { change: RecordChange }) {
  const [first, ...rest] = describeChange(change);
  if (first === undefined) return null;
  if (rest.length === 0) return <span>{first}</span>;
  return (
    <details>
      <summary>
        {first} <span class="soft">and {rest.length} more</span>
      </summary>
      <ul>
        {rest.map((line) => (
          <li key={line}>{line}</li>
        ))}
      </ul>
    </details>
  );
}

/** The whole log, the newest row first. */
async function readAll(): Promise<AuditRow[]> {
  const rows: AuditRow[] = [];
  let before = "";
  for (let page = 0; page < MOST_PAGES; page += 1) {
    const found = await askAdmin<Page<AuditRow>>(`audit?limit=1000${before}`);
    rows.push(...found.data);
    if (found.next === null) return rows;
    before = `&before=${found.next}`;
  }
  throw new Error(`There are more than ${rows.length.toLocaleString("en")} rows: use the admin API.`);
}
