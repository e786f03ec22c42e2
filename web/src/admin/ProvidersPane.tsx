// Providers and where their keys are. An admin stores, tests and removes keys here, and adds custom providers; a key
// is never sent back.
import { useState } from "preact/hooks";
import { formatDuration } from "../ui/format.ts";
import { Sheet } from "../ui/Sheet.tsx";
import {
  askAdmin,
  customProviderPath,
  describe,
  type ProviderList,
  type ProviderRow,
  type ProviderTest,
  providerPath,
} from "./api.ts";
import { CustomProviderForm } from "./CustomProviderForm.tsx";
import { PaneTools } from "./PaneTools.tsx";
import { ProviderKeyForm } from "./ProviderKeyForm.tsx";
import { Question } from "./Question.tsx";
import { useRows } from "./useRows.ts";

const load = () => askAdmin<ProviderList>("providers");

type Task =
  | { kind: "add"; name: string }
  | { kind: "remove"; row: ProviderRow }
  | { kind: "custom"; row: ProviderRow | null }
  | { kind: "remove-custom"; row: ProviderRow }
  | null;

export function ProvidersPane({ edits }: { edits: boolean }) {
  const { rows: list, error, refresh } = useRows(load);
  const rows = list?.data ?? null;
  const [task, setTask] = useState<Task>(null);
  const [status, setStatus] = useState("");
  const close = () => setTask(null);
  const saved = (words: string) => {
    setTask(null);
    setStatus(words);
    refresh();
  };
  const used = rows?.filter((row) => row.custom || row.has_key || row.stored || row.source !== "" || row.problem) ?? [];
  return (
    <section aria-label="Providers" class="admin-pane">
      <PaneTools
        add="Add a key of a provider"
        edits={edits}
        onAdd={() => setTask({ kind: "add", name: "" })}
        addOther="Add a custom provider"
        onAddOther={() => setTask({ kind: "custom", row: null })}
        onRefresh={refresh}
        status={status}
        error={error}
        reading={rows === null}
      />
      {rows && used.length === 0 && (
        <p class="soft">No provider is configured: only packaged streams answer (replay/…).</p>
      )}
      {list?.error && (
        <p class="admin-error" role="alert">
          {list.error}
        </p>
      )}
      {used.length > 0 && <ProvidersTable rows={used} edits={edits} onTask={setTask} />}
      <p class="soft">
        Keys are stored on the gateway's machine, in its keyring or in a file that only its owner reads, as{" "}
        <code>penstock setup</code> does. A model of a custom provider is requested by the provider's name, a slash and
        its own name.
      </p>
      {task?.kind === "add" && rows && (
        <ProviderKeyForm
          rows={rows}
          name={task.name}
          onClose={close}
          onSaved={(row) => saved(`The key of ${row.title} is stored.`)}
        />
      )}
      {task?.kind === "custom" && list && (
        <CustomProviderForm
          row={task.row}
          templates={list.templates}
          onClose={close}
          onSaved={(row) => saved(`${row.title} is ${task.row ? "saved" : "added"}.`)}
        />
      )}
      {task?.kind === "remove-custom" && (
        <Question
          title={`Remove ${task.row.title}`}
          button="Remove"
          onClose={close}
          run={() => askAdmin<void>(customProviderPath(task.row.name), "DELETE", undefined, task.row.etag)}
          onDone={() => saved(`${task.row.title} is removed.`)}
        >
          <p>
            The gateway forgets this provider{task.row.stored && " and its key"} at once. Answers that have begun are
            finished; later requests for its models are refused.
          </p>
        </Question>
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
          <ProviderLine key={`${row.name} ${row.etag}`} row={row} edits={edits} onTask={onTask} />
        ))}
      </tbody>
    </Sheet>
  );
}

function ProviderLine({ row, edits, onTask }: { row: ProviderRow; edits: boolean; onTask: (task: Task) => void }) {
  const [result, setResult] = useState<ProviderTest | string>("");
  const [busy, setBusy] = useState(false);
  const test = async (ask_model: boolean) => {
    setBusy(true);
    setResult("");
    try {
      setResult(await askAdmin<ProviderTest>(`${providerPath(row.name)}/test`, "POST", { ask_model }));
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
        {describeProviderKey(row)}
        {row.problem && <p class="provider-bad">{row.problem}</p>}
        {row.warning && <p class="provider-warning">{row.warning}</p>}
        <span role="status">
          {busy && "Testing…"}
          <Result result={result} />
        </span>
        {typeof result === "object" && result.model && (
          <button type="button" disabled={busy} onClick={() => void test(true)}>
            Ask {result.model}
          </button>
        )}
      </td>
      <td class="provider-address">{row.address}</td>
      {edits && (
        <td>
          <Actions row={row} busy={busy} onTest={() => void test(false)} onTask={onTask} />
        </td>
      )}
    </tr>
  );
}

interface ActionsProps {
  row: ProviderRow;
  busy: boolean;
  onTest: () => void;
  onTask: (task: Task) => void;
}

function Actions({ row, busy, onTest, onTask }: ActionsProps) {
  return (
    <span class="row-actions">
      <button type="button" aria-label={`Test ${row.title}`} disabled={busy} onClick={() => onTest()}>
        Test
      </button>
      {row.custom ? (
        <button type="button" aria-label={`Edit ${row.title}`} onClick={() => onTask({ kind: "custom", row })}>
          Edit
        </button>
      ) : (
        <button
          type="button"
          aria-label={`${row.stored ? "Replace" : "Add"} key of ${row.title}`}
          onClick={() => onTask({ kind: "add", name: row.name })}
        >
          {row.stored ? "Replace key" : "Add key"}
        </button>
      )}
      {row.stored && (
        <button type="button" aria-label={`Remove key of ${row.title}`} onClick={() => onTask({ kind: "remove", row })}>
          Remove key
        </button>
      )}
      {row.custom && (
        <button type="button" aria-label={`Remove ${row.title}`} onClick={() => onTask({ kind: "remove-custom", row })}>
          Remove
        </button>
      )}
    </span>
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
export function describeProviderKey(row: ProviderRow): string {
  const { source, variable, has_key, stored, used, ending, added } = row;
  if (!has_key) return describeMissingKey(row);
  const end = stored && ending ? ` …${ending}` : "";
  if (used) return `stored${end}${added ? `, ${added}` : ""}`;
  const where = variable ? `in the variable ${variable}` : SOURCES[source];
  return stored ? `${where}; the stored one${end} is not used` : where;
}

/** Whether a key is missing. Whether a custom provider needs one is not known. */
function describeMissingKey({ key_needed, custom }: ProviderRow): string {
  if (custom) return "none";
  return key_needed ? "none: it needs one" : "needs none";
}
