// Adds or edits a key. An error stands at the value that it is about.
import { useState } from "preact/hooks";
import { askAdmin, type KeyRow, keyPath, type NewKey, type Role } from "./api.ts";
import { FormDialog } from "./FormDialog.tsx";
import { CheckField, Labelled, TextField } from "./fields.tsx";
import { LimitFields } from "./LimitFields.tsx";
import { changes, type Draft, draftOf } from "./limits.ts";
import type { Problem } from "./problems.ts";
import { useFormSubmit } from "./useFormSubmit.ts";

interface Props {
  /** The key to edit; null adds one. */
  row: KeyRow | null;
  teams: string[];
  onClose: () => void;
  /** Called with what the gateway has made of it; a new key has a secret. */
  onSaved: (saved: KeyRow | NewKey) => void;
}

const FIELDS = new Set(["name", "team", "role", "tenant", "models", "expires", "max_output", "note", "limits"]);
const EXPIRES_HINT = "Your local time; empty: never. A time that has passed stops the key until you enter a later one.";

export function KeyForm({ row, teams, onClose, onSaved }: Props) {
  const before = draftOf(row);
  const [draft, setDraft] = useState(before);
  const set = (more: Partial<Draft>) => setDraft({ ...draft, ...more });
  const submission = useFormSubmit(async () => onSaved(await save(row, draft, before)));
  const { problem } = submission;
  return (
    <FormDialog
      title={row ? `Edit ${row.name}` : "Add a key"}
      submission={submission}
      fields={FIELDS}
      button={row ? "Save" : "Add"}
      incomplete={row === null && !draft.name.trim()}
      onClose={onClose}
    >
      {row === null && (
        <TextField label="Name" field="name" value={draft.name} problem={problem} onInput={(name) => set({ name })} />
      )}
      <TeamField teams={teams} draft={draft} problem={problem} set={set} />
      <RoleField draft={draft} problem={problem} set={set} />
      <TextField
        label="Models, separated by commas"
        field="models"
        value={draft.models}
        hint="Names or patterns such as openai/*; * is every model."
        problem={problem}
        onInput={(models) => set({ models })}
      />
      <TextField
        label="Expires"
        field="expires"
        type="datetime-local"
        value={draft.expires}
        hint={EXPIRES_HINT}
        problem={problem}
        onInput={(expires) => set({ expires })}
      />
      <TextField
        label="Maximum tokens per answer"
        field="max_output"
        type="number"
        value={draft.max_output}
        problem={problem}
        onInput={(max_output) => set({ max_output })}
      />
      <TextField label="Note" field="note" value={draft.note} problem={problem} onInput={(note) => set({ note })} />
      <LimitFields limits={draft.limits} problem={problem} onChange={(limits) => set({ limits })} />
      <InspectorFields draft={draft} problem={problem} set={set} />
    </FormDialog>
  );
}

function save(row: KeyRow | null, draft: Draft, before: Draft): Promise<KeyRow | NewKey> {
  const fields = changes(draft, before);
  if (row) return askAdmin<KeyRow>(keyPath(row.name), "PATCH", fields, row.etag);
  return askAdmin<NewKey>("keys", "POST", { name: draft.name.trim(), ...fields });
}

interface FieldProps {
  draft: Draft;
  problem: Problem;
  set: (more: Partial<Draft>) => void;
}

function TeamField({ teams, draft, problem, set }: FieldProps & { teams: string[] }) {
  return (
    <Labelled label="Team" field="team" problem={problem}>
      {(attributes) => (
        <select {...attributes} value={draft.team} onChange={(event) => set({ team: event.currentTarget.value })}>
          <option value="">none</option>
          {[...new Set([...teams, draft.team])].filter(Boolean).map((name) => (
            <option key={name} value={name}>
              {name}
            </option>
          ))}
        </select>
      )}
    </Labelled>
  );
}

function RoleField({ draft, problem, set }: FieldProps) {
  const choose = (role: string) => set({ role: role as Role });
  return (
    <Labelled label="Role" field="role" problem={problem}>
      {(attributes) => (
        <select {...attributes} value={draft.role} onChange={(event) => choose(event.currentTarget.value)}>
          <option value="user">user: uses models</option>
          <option value="viewer">viewer: also sees this page</option>
          <option value="admin">admin: also changes what is on this page</option>
        </select>
      )}
    </Labelled>
  );
}

/** Whose stored answers and turns a key sees, and whether the inspector keeps its own. */
function InspectorFields({ draft, problem, set }: FieldProps) {
  return (
    <fieldset class="inspector-fields">
      <legend>Inspector and stored answers</legend>
      <CheckField
        label="Keep this key's turns for the inspector"
        checked={draft.inspect_keep}
        hint="Includes prompts and answers. If off, turns are kept only while the inspector is open and five minutes after."
        onChange={(inspect_keep) => set({ inspect_keep })}
      />
      <CheckField
        label="May see every key's turns"
        checked={draft.inspect === "all"}
        hint="In the inspector, with prompts and answers. If off, the key sees the turns of its own tenant."
        onChange={(all) => set({ inspect: all ? "all" : "own" })}
      />
      <TextField
        label="Tenant"
        field="tenant"
        value={draft.tenant}
        hint="Keys of one tenant see each other's turns and stored answers. Empty: this key is a tenant of its own."
        problem={problem}
        onInput={(tenant) => set({ tenant })}
      />
    </fieldset>
  );
}
