// Stores the key of a provider. The key is sent once and never comes back.
import { useState } from "preact/hooks";
import { AdminError, askAdmin, describe, type ProviderRow } from "./api.ts";
import { Dialog } from "./Dialog.tsx";
import { Labelled, NO_PROBLEM, TextField } from "./fields.tsx";

interface Props {
  rows: ProviderRow[];
  /** The provider that is chosen at first; empty: none. */
  name: string;
  onClose: () => void;
  onSaved: (row: ProviderRow) => void;
}

export function ProviderKeyForm({ rows, name: first, onClose, onSaved }: Props) {
  const [name, setName] = useState(first);
  const [key, setKey] = useState("");
  const [check, setCheck] = useState(true);
  const [problem, setProblem] = useState(NO_PROBLEM);
  const [busy, setBusy] = useState(false);
  const row = rows.find((one) => one.name === name);
  const send = async (event: SubmitEvent) => {
    event.preventDefault();
    if (busy) return;
    setBusy(true);
    try {
      onSaved(await askAdmin<ProviderRow>("providers", "POST", { name, key, check }));
    } catch (error) {
      setProblem({ field: error instanceof AdminError ? error.field : "", message: describe(error) });
      setBusy(false);
    }
  };
  const general = problem.message && problem.field !== "name" && problem.field !== "key";
  return (
    <Dialog title={row?.stored ? `Replace the key of ${row.title}` : "Add a key of a provider"} onClose={onClose}>
      <form class="key-form" onSubmit={send} noValidate>
        {general && (
          <p class="admin-error" role="alert">
            {problem.message}
          </p>
        )}
        <Labelled label="Provider" field="name" problem={problem}>
          {(attributes) => (
            <select {...attributes} value={name} onChange={(event) => setName(event.currentTarget.value)}>
              <option value="">choose one</option>
              {rows.map((one) => (
                <option key={one.name} value={one.name}>
                  {one.title}
                </option>
              ))}
            </select>
          )}
        </Labelled>
        <TextField label="Key" field="key" type="password" value={key} problem={problem} onInput={setKey} />
        {row?.keys_url && (
          <p class="soft">
            Made at{" "}
            <a href={row.keys_url} rel="noreferrer noopener" target="_blank">
              {row.keys_url}
            </a>
            {row.origin && `; it is sent to ${row.origin} only.`}
          </p>
        )}
        <label class="check-field">
          <input type="checkbox" checked={check} onChange={(event) => setCheck(event.currentTarget.checked)} /> Test it
          with one request before it is stored
        </label>
        <div class="dialog-buttons">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" class="main" disabled={busy || !name || !key.trim()}>
            {busy ? "Testing…" : "Store"}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
