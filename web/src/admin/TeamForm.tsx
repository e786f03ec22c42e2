// Adds or edits a team, or edits the organisation: models and limits. An error stands at the value that it is about.
import { useState } from "preact/hooks";
import { AdminError, askAdmin, describe, type Organisation, type TeamRow, teamPath } from "./api.ts";
import { Dialog } from "./Dialog.tsx";
import { NO_PROBLEM, TextField } from "./fields.tsx";
import { LimitFields } from "./LimitFields.tsx";
import { type TeamDraft, teamChanges, teamDraftOf } from "./limits.ts";

export type TeamTask =
  | { kind: "add" }
  | { kind: "edit"; row: TeamRow }
  | { kind: "organisation"; row: Organisation }
  | { kind: "remove"; row: TeamRow };

interface Props {
  task: Exclude<TeamTask, { kind: "remove" }>;
  onClose: () => void;
  onSaved: (words: string) => void;
}

const PLACES = new Set(["name", "models", "note"]);

export function TeamForm({ task, onClose, onSaved }: Props) {
  const before = teamDraftOf(task.kind === "add" ? null : task.row);
  const [draft, setDraft] = useState(before);
  const [problem, setProblem] = useState(NO_PROBLEM);
  const [busy, setBusy] = useState(false);
  const set = (more: Partial<TeamDraft>) => setDraft({ ...draft, ...more });
  const send = async (event: SubmitEvent) => {
    event.preventDefault();
    if (busy) return;
    setBusy(true);
    try {
      await save(task, draft, before);
      onSaved(`${task.kind === "organisation" ? "The organisation" : draft.name} is saved.`);
    } catch (error) {
      setProblem({ field: error instanceof AdminError ? error.field : "", message: describe(error) });
      setBusy(false);
    }
  };
  const general = problem.message && !PLACES.has(problem.field) && !problem.field.startsWith("limits");
  return (
    <Dialog title={titleOf(task)} onClose={onClose}>
      <form class="key-form" onSubmit={send} noValidate>
        {general && (
          <p class="admin-error" role="alert">
            {problem.message}
          </p>
        )}
        {task.kind === "add" && (
          <TextField label="Name" field="name" value={draft.name} problem={problem} onInput={(name) => set({ name })} />
        )}
        <TextField
          label="Models, separated by commas"
          field="models"
          value={draft.models}
          problem={problem}
          onInput={(models) => set({ models })}
        />
        {task.kind !== "organisation" && (
          <TextField label="Note" field="note" value={draft.note} problem={problem} onInput={(note) => set({ note })} />
        )}
        <LimitFields limits={draft.limits} problem={problem} onChange={(limits) => set({ limits })} />
        <div class="dialog-buttons">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" class="main" disabled={busy}>
            {task.kind === "add" ? "Add" : "Save"}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

function titleOf(task: Props["task"]): string {
  if (task.kind === "add") return "Add a team";
  return task.kind === "edit" ? `Edit ${task.row.name}` : "Edit the organisation";
}

async function save(task: Props["task"], draft: TeamDraft, before: TeamDraft): Promise<void> {
  const fields = teamChanges(draft, before);
  if (task.kind === "add") await askAdmin("teams", "POST", { name: draft.name, ...fields });
  else if (task.kind === "edit") await askAdmin(teamPath(task.row.name), "PATCH", fields, task.row.etag);
  else await askAdmin("organisation", "PATCH", fields, task.row.etag);
}
