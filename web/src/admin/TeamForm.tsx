// Adds or edits a team, or edits the organisation: models and limits. An error stands at the value that it is about.
import { useState } from "preact/hooks";
import { askAdmin, type Organisation, type TeamRow, teamPath } from "./api.ts";
import { FormDialog } from "./FormDialog.tsx";
import { TextField } from "./fields.tsx";
import { LimitFields } from "./LimitFields.tsx";
import { type TeamDraft, teamChanges, teamDraftOf } from "./limits.ts";
import { useFormSubmit } from "./useFormSubmit.ts";

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

const FIELDS = new Set(["name", "models", "note", "limits"]);

export function TeamForm({ task, onClose, onSaved }: Props) {
  const before = teamDraftOf(task.kind === "add" ? null : task.row);
  const [draft, setDraft] = useState(before);
  const set = (more: Partial<TeamDraft>) => setDraft({ ...draft, ...more });
  const submission = useFormSubmit(async () => {
    await save(task, draft, before);
    onSaved(`${task.kind === "organisation" ? "The organisation" : draft.name.trim()} is saved.`);
  });
  const { problem } = submission;
  return (
    <FormDialog
      title={titleOf(task)}
      submission={submission}
      fields={FIELDS}
      button={task.kind === "add" ? "Add" : "Save"}
      incomplete={task.kind === "add" && !draft.name.trim()}
      onClose={onClose}
    >
      {task.kind === "add" && (
        <TextField label="Name" field="name" value={draft.name} problem={problem} onInput={(name) => set({ name })} />
      )}
      <TextField
        label="Models, separated by commas"
        field="models"
        value={draft.models}
        hint="Names or patterns such as openai/*; * is every model."
        problem={problem}
        onInput={(models) => set({ models })}
      />
      {task.kind !== "organisation" && (
        <TextField label="Note" field="note" value={draft.note} problem={problem} onInput={(note) => set({ note })} />
      )}
      <LimitFields limits={draft.limits} problem={problem} onChange={(limits) => set({ limits })} />
    </FormDialog>
  );
}

function titleOf(task: Props["task"]): string {
  if (task.kind === "add") return "Add a team";
  return task.kind === "edit" ? `Edit ${task.row.name}` : "Edit the organisation";
}

async function save(task: Props["task"], draft: TeamDraft, before: TeamDraft): Promise<void> {
  const fields = teamChanges(draft, before);
  if (task.kind === "add") await askAdmin("teams", "POST", { name: draft.name.trim(), ...fields });
  else if (task.kind === "edit") await askAdmin(teamPath(task.row.name), "PATCH", fields, task.row.etag);
  else await askAdmin("organisation", "PATCH", fields, task.row.etag);
}
