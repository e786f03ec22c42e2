// Stores the key of a provider. The key is sent once and never comes back.
import { useState } from "preact/hooks";
import { askAdmin, type ProviderRow } from "./api.ts";
import { FormDialog } from "./FormDialog.tsx";
import { CheckField, Labelled, TextField } from "./fields.tsx";
import { useFormSubmit } from "./useFormSubmit.ts";

interface Props {
  rows: ProviderRow[];
  /** The provider that is chosen at first; empty: none. */
  name: string;
  onClose: () => void;
  onSaved: (row: ProviderRow) => void;
}

const FIELDS = new Set(["name", "key"]);
const CHECK_HINT =
  "It asks for the list of models. Where that needs no key, it asks the cheapest model for an answer of at most 16 tokens.";

export function ProviderKeyForm({ rows, name: first, onClose, onSaved }: Props) {
  const [name, setName] = useState(first);
  const [key, setKey] = useState("");
  const [check, setCheck] = useState(true);
  const submission = useFormSubmit(async () =>
    onSaved(await askAdmin<ProviderRow>("providers", "POST", { name, key, check })),
  );
  const { problem, busy } = submission;
  const row = rows.find((one) => one.name === name);
  return (
    <FormDialog
      title={row?.stored ? `Replace the key of ${row.title}` : "Add a key of a provider"}
      submission={submission}
      fields={FIELDS}
      button={busy ? (check ? "Testing…" : "Storing…") : "Store"}
      incomplete={!name || !key.trim()}
      onClose={onClose}
    >
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
      <CheckField
        label="Test it with one request before it is stored"
        checked={check}
        hint={CHECK_HINT}
        onChange={setCheck}
      />
    </FormDialog>
  );
}
