// All keys: what they may use and have used. An admin adds, edits, rotates and revokes them here.
import { useState } from "preact/hooks";
import { formatManyShort } from "../ui/format.ts";
import { Sheet } from "../ui/Sheet.tsx";
import { askAll, type KeyRow, type NewKey, type ScopeUsage, type TeamRow } from "./api.ts";
import { RevokeDialog, RotateDialog } from "./KeyDialogs.tsx";
import { KeyForm } from "./KeyForm.tsx";
import { describeInspectorAccess, matchesKey } from "./keyDescription.ts";
import { PaneTools } from "./PaneTools.tsx";
import { SecretBox } from "./SecretBox.tsx";
import { UsageCell } from "./UsageCell.tsx";
import { useRows } from "./useRows.ts";

async function load() {
  const [keys, teams, scopes] = await Promise.all([
    askAll<KeyRow>("keys"),
    askAll<TeamRow>("teams"),
    askAll<ScopeUsage>("limits"),
  ]);
  const used = new Map(scopes.filter(({ scope }) => scope === "key").map((one) => [one.name, one.limits]));
  return { keys, teams: teams.map(({ name }) => name), used };
}

const SEARCH_FROM = 11; // keys: fewer are seen at once

type Task = { kind: "edit"; row: KeyRow | null } | { kind: "rotate" | "revoke"; row: KeyRow } | null;

export function KeysPane({ edits }: { edits: boolean }) {
  const { rows, error, refresh } = useRows(load);
  const [task, setTask] = useState<Task>(null);
  const [newKey, setNewKey] = useState<NewKey | null>(null);
  const [status, setStatus] = useState("");
  const close = () => setTask(null);
  const saved = (words: string, row?: KeyRow | NewKey) => {
    setTask(null);
    if (row && "secret" in row) setNewKey(row);
    setStatus(words);
    refresh();
  };
  return (
    <section aria-label="Keys" class="admin-pane">
      <PaneTools
        add="Add a key"
        edits={edits}
        onAdd={() => setTask({ kind: "edit", row: null })}
        onRefresh={refresh}
        status={status}
        error={error}
        reading={rows === null}
      />
      {rows && <KeysTable rows={rows.keys} used={rows.used} edits={edits} onTask={setTask} />}
      {task?.kind === "edit" && (
        <KeyForm
          row={task.row}
          teams={rows?.teams ?? []}
          onClose={close}
          onSaved={(row) => saved(`${row.name} is saved.`, row)}
        />
      )}
      {task?.kind === "rotate" && (
        <RotateDialog row={task.row} onClose={close} onDone={(row) => saved(`${row.name} has a new secret.`, row)} />
      )}
      {task?.kind === "revoke" && (
        <RevokeDialog row={task.row} onClose={close} onDone={() => saved(`${task.row.name} is revoked.`)} />
      )}
      {newKey && <SecretBox name={newKey.name} secret={newKey.secret} onClose={() => setNewKey(null)} />}
    </section>
  );
}

interface TableProps {
  rows: KeyRow[];
  used: Map<string, ScopeUsage["limits"]>;
  edits: boolean;
  onTask: (task: Task) => void;
}

function KeysTable({ rows, used, edits, onTask }: TableProps) {
  const heads = ["Key", "Team", "Role", "Models", "Used of its limits", "Inspector", "Expires", "Note"];
  const [text, setText] = useState("");
  const shown = rows.filter((row) => matchesKey(row, text));
  return (
    <>
      {rows.length >= SEARCH_FROM && (
        <label class="key-filter">
          Find a key <input type="search" value={text} onInput={(event) => setText(event.currentTarget.value)} />
          <span class="soft" role="status">
            {text.trim() && `${shown.length} of ${rows.length}`}
          </span>
        </label>
      )}
      <Sheet caption="Keys">
        <thead>
          <tr>
            {heads.map((head) => (
              <th key={head} scope="col">
                {head}
              </th>
            ))}
            {edits && <th scope="col">Actions</th>}
          </tr>
        </thead>
        <tbody>
          {shown.map((row) => (
            <tr key={row.name}>
              <th scope="row">
                {row.name} {row.tenant && <span class="soft">tenant {row.tenant}</span>}
              </th>
              <td>{row.team}</td>
              <td>{row.role}</td>
              <td class="wrapping">{row.models.join(", ")}</td>
              <td>
                <UsageCell limits={used.get(row.name) ?? []} />
                {row.max_output > 0 && <p>{formatManyShort(row.max_output, "token")} of one answer at most</p>}
              </td>
              <td class="wrapping">
                {describeInspectorAccess(row).map((words) => (
                  <p key={words}>{words}</p>
                ))}
              </td>
              <td class="wrapping">
                {expiry(row)}
                {row.previous.map(({ hash, expires }) => (
                  <p key={hash} class="soft">
                    an old secret works until {new Date(expires).toLocaleString("en-GB")}
                  </p>
                ))}
              </td>
              <td class="wrapping">{row.note}</td>
              {edits && <td>{row.source === "store" ? <Actions row={row} onTask={onTask} /> : "in penstock.toml"}</td>}
            </tr>
          ))}
        </tbody>
      </Sheet>
    </>
  );
}

function expiry(row: KeyRow): string {
  if (row.expires === null) return "never";
  return `${row.expired ? "expired " : ""}${new Date(row.expires).toLocaleString("en-GB")}`;
}

function Actions({ row, onTask }: { row: KeyRow; onTask: (task: Task) => void }) {
  return (
    <span class="row-actions">
      <button type="button" aria-label={`Edit ${row.name}`} onClick={() => onTask({ kind: "edit", row })}>
        Edit
      </button>
      <button type="button" aria-label={`Rotate ${row.name}`} onClick={() => onTask({ kind: "rotate", row })}>
        Rotate
      </button>
      <button type="button" aria-label={`Revoke ${row.name}`} onClick={() => onTask({ kind: "revoke", row })}>
        Revoke
      </button>
    </span>
  );
}
