// Adds or edits a key. An error stands at the value that it is about.
import { useState } from "preact/hooks";
import { AdminError, askAdmin, describe, type KeyRow, keyPath, type NewKey, type Role } from "./api.ts";
import { Dialog } from "./Dialog.tsx";
import { Labelled, NO_PROBLEM, type Problem, TextField } from "./fields.tsx";
import { LimitFields } from "./LimitFields.tsx";
import { changes, type Draft, draftOf } from "./limits.ts";

interface Props {
  /** The key to edit; null adds one. */
  row: KeyRow | null;
  teams: string[];
  onClose: () => void;
  /** Called with what the gateway has made of it; a new key has a secret. */
  onSaved: (saved: KeyRow | NewKey) => void;
}

const PLACES = new Set(["name", "team", "role", "models", "expires", "max_output", "note"]);

export function KeyForm({ row, teams, onClose, onSaved }: Props) {
  const before = draftOf(row);
  const [draft, setDraft] = useState(before);
  const [problem, setProblem] = useState(NO_PROBLEM);
  const [busy, setBusy] = useState(false);
  const set = (more: Partial<Draft>) => setDraft({ ...draft, ...more });
  const send = async (event: SubmitEvent) => {
    event.preventDefault();
    if (busy) return;
    setBusy(true);
    try {
      const fields = changes(draft, before);
      onSaved(
        row === null
          ? await askAdmin<NewKey>("keys", "POST", { name: draft.name, ...fields })
          : await askAdmin<KeyRow>(keyPath(row.name), "PATCH", fields, row.etag),
      );
    } catch (error) {
      setProblem({ field: error instanceof AdminError ? error.field : "", message: describe(error) });
      setBusy(false);
    }
  };
  const general = problem.message && !PLACES.has(problem.field) && !problem.field.startsWith("limits");
  return (
    <Dialog title={row ? `Edit ${row.name}` : "Add a key"} onClose={onClose}>
      <form class="key-form" onSubmit={send} noValidate>
        {general && (
          <p class="admin-error" role="alert">
            {problem.message}
          </p>
        )}
        {row === null && (
          <TextField label="Name" field="name" value={draft.name} problem={problem} onInput={(name) => set({ name })} />
        )}
        <TeamField teams={teams} draft={draft} problem={problem} set={set} />
        <RoleField draft={draft} problem={problem} set={set} />
        <TextField
          label="Models, separated by commas"
          field="models"
          value={draft.models}
          problem={problem}
          onInput={(models) => set({ models })}
        />
        <TextField
          label="Expires"
          field="expires"
          type="datetime-local"
          value={draft.expires}
          problem={problem}
          onInput={(expires) => set({ expires })}
        />
        <TextField
          label="Most tokens of one answer"
          field="max_output"
          type="number"
          value={draft.max_output}
          problem={problem}
          onInput={(max_output) => set({ max_output })}
        />
        <TextField label="Note" field="note" value={draft.note} problem={problem} onInput={(note) => set({ note })} />
        <LimitFields limits={draft.limits} problem={problem} onChange={(limits) => set({ limits })} />
        <div class="dialog-buttons">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" class="main" disabled={busy}>
            {row ? "Save" : "Add"}
          </button>
        </div>
      </form>
    </Dialog>
  );
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
          <option value="admin">admin: also changes keys</option>
        </select>
      )}
    </Labelled>
  );
}
