// Providers and where their keys are. An admin stores, tests and removes keys here; a key is never sent back.
import { useState } from "preact/hooks";
import { formatDuration } from "../ui/format.ts";
import { Sheet } from "../ui/Sheet.tsx";
import { askAdmin, describe, type ProviderRow, type ProviderTest, providerPath } from "./api.ts";
import { PaneTools } from "./PaneTools.tsx";
import { ProviderKeyForm } from "./ProviderKeyForm.tsx";
import { Question } from "./Question.tsx";
import { useRows } from "./useRows.ts";

const load = async () => (await askAdmin<{ data: ProviderRow[] }>("providers")).data;

type Task = { kind: "add"; name: string } | { kind: "remove"; row: ProviderRow } | null;

export function ProvidersPane({ edits }: { edits: boolean }) {
  const { rows, error, refresh } = useRows(load);
  const [task, setTask] = useState<Task>(null);
  const [told, setTold] = useState("");
  const close = () => setTask(null);
  const saved = (words: string) => {
    setTask(null);
    setTold(words);
    refresh();
  };
  const used = rows?.filter((row) => row.has_key || row.stored || row.source !== "" || row.problem !== "") ?? [];
  return (
    <section aria-label="Providers" class="admin-pane">
      <PaneTools
        add="Add a key of a provider"
        edits={edits}
        onAdd={() => setTask({ kind: "add", name: "" })}
        onRefresh={refresh}
        told={told}
        error={error}
        reading={rows === null}
      />
      {rows && used.length === 0 && (
        <p class="soft">No provider is configured: only packaged streams answer (replay/…).</p>
      )}
      {used.length > 0 && <ProvidersTable rows={used} edits={edits} onTask={setTask} />}
      <p class="soft">
        Keys are stored on the gateway's machine, in its keyring or in a file that only its owner reads, as{" "}
        <code>penstock setup</code> does. A server of your own is added in <code>penstock.toml</code>.
      </p>
      {task?.kind === "add" && rows && (
        <ProviderKeyForm
          rows={rows}
          name={task.name}
          onClose={close}
          onSaved={(row) => saved(`The key of ${row.title} is stored.`)}
        />
      )}
      {task?.kind === "remove" && (
        <Question
          title={`Remove the key of ${task.row.title}`}
          button="Remove"
          onClose={close}
          run={() => askAdmin<void>(providerPath(task.row.name), "DELETE")}
          onDone={() => saved(`The key of ${task.row.title} is removed.`)}
        >
          <p>The gateway forgets the key at once. The provider itself still accepts it, until you revoke it there.</p>
        </Question>
      )}
    </section>
  );
}

interface TableProps {
  rows: ProviderRow[];
  edits: boolean;
  onTask: (task: Task) => void;
}

function ProvidersTable({ rows, edits, onTask }: TableProps) {
  return (
    <Sheet caption="Providers">
      <thead>
        <tr>
          <th scope="col">Provider</th>
          <th scope="col">Key</th>
          <th scope="col">Address</th>
          {edits && <th scope="col">Actions</th>}
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <ProviderLine key={row.name} row={row} edits={edits} onTask={onTask} />
        ))}
      </tbody>
    </Sheet>
  );
}

function ProviderLine({ row, edits, onTask }: { row: ProviderRow; edits: boolean; onTask: (task: Task) => void }) {
  const [result, setResult] = useState<ProviderTest | string>("");
  const [busy, setBusy] = useState(false);
  const test = async () => {
    setBusy(true);
    setResult("");
    try {
      setResult(await askAdmin<ProviderTest>(`${providerPath(row.name)}/test`, "POST", {}));
    } catch (error) {
      setResult(describe(error));
    }
    setBusy(false);
  };
  return (
    <tr>
      <th scope="row">
        {row.title} {row.title !== row.name && <span class="soft">{row.name}</span>}
      </th>
      <td class="provider-key">
        {keyWords(row)}
        {row.problem && <p class="provider-bad">{row.problem}</p>}
        <span role="status">
          <Result result={result} />
        </span>
      </td>
      <td>{row.origin}</td>
      {edits && (
        <td>
          <span class="row-actions">
            <button type="button" aria-label={`Test ${row.title}`} disabled={busy} onClick={() => void test()}>
              Test
            </button>
            <button
              type="button"
              aria-label={`${row.stored ? "Replace" : "Add"} key of ${row.title}`}
              onClick={() => onTask({ kind: "add", name: row.name })}
            >
              {row.stored ? "Replace key" : "Add key"}
            </button>
            {row.stored && (
              <button
                type="button"
                aria-label={`Remove key of ${row.title}`}
                onClick={() => onTask({ kind: "remove", row })}
              >
                Remove key
              </button>
            )}
          </span>
        </td>
      )}
    </tr>
  );
}

function Result({ result }: { result: ProviderTest | string }) {
  if (typeof result === "string") return result ? <span class="provider-bad">{result}</span> : null;
  return (
    <span class={result.ok ? "provider-good" : "provider-bad"}>
      {result.message} <span class="soft">{formatDuration(result.seconds)}</span>
    </span>
  );
}

const SOURCES = {
  stored: "stored",
  configuration: "in penstock.toml",
  environment: "in the environment",
  editor: "from an editor",
  "": "none",
};

/** Where the key is, and how a stored one ends. */
export function keyWords({ source, variable, has_key, key_needed, stored, used, ending, added }: ProviderRow): string {
  if (!has_key) return key_needed ? "none: it needs one" : "needs none";
  const end = stored && ending ? ` …${ending}` : "";
  if (used) return `stored${end}${added ? `, ${added}` : ""}`;
  const where = variable ? `in the variable ${variable}` : SOURCES[source];
  return stored ? `${where}; the stored one${end} is not used` : where;
}
