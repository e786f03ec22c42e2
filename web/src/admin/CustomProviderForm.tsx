// Adds or edits a custom provider: its address, what it behaves like, its key and its models.
import { useState } from "preact/hooks";
import { askAdmin, customProviderPath, type ProviderList, type ProviderRow } from "./api.ts";
import {
  type CustomProviderDraft,
  customProviderBody,
  customProviderDraft,
  EXPOSURE_WARNING,
  isExposed,
  sameOrigin,
} from "./customProvider.ts";
import { FormDialog } from "./FormDialog.tsx";
import { CheckField, Labelled, TextField } from "./fields.tsx";
import type { Problem } from "./problems.ts";
import { useFormSubmit } from "./useFormSubmit.ts";

interface Props {
  /** The custom provider to edit; null adds one. */
  row: ProviderRow | null;
  templates: ProviderList["templates"];
  onClose: () => void;
  onSaved: (row: ProviderRow) => void;
}

const FIELDS = new Set(["name", "base_url", "like", "title", "key", "models"]);
const CHECK_HINT =
  "It asks for the provider's list of models. If there is none, it asks the first model that is named above for an answer of at most 16 tokens.";

export function CustomProviderForm({ row, templates, onClose, onSaved }: Props) {
  const [draft, setDraft] = useState(() => customProviderDraft(row));
  const [check, setCheck] = useState(true);
  const set = (more: Partial<CustomProviderDraft>) => setDraft({ ...draft, ...more });
  const submission = useFormSubmit(async () => onSaved(await save(row, draft, check)));
  const { problem, busy } = submission;
  return (
    <FormDialog
      title={row ? `Edit ${row.title}` : "Add a custom provider"}
      submission={submission}
      fields={FIELDS}
      button={busy ? (check ? "Testing…" : "Saving…") : row ? "Save" : "Add"}
      incomplete={!draft.name.trim() || !draft.base_url.trim()}
      onClose={onClose}
    >
      <CustomProviderFields row={row} templates={templates} draft={draft} problem={problem} set={set} />
      <CheckField
        label="Test it with one request before it is stored"
        checked={check}
        hint={CHECK_HINT}
        onChange={setCheck}
      />
    </FormDialog>
  );
}

interface FieldsProps {
  row: ProviderRow | null;
  templates: ProviderList["templates"];
  draft: CustomProviderDraft;
  problem: Problem;
  set: (more: Partial<CustomProviderDraft>) => void;
}

function CustomProviderFields({ row, templates, draft, problem, set }: FieldsProps) {
  return (
    <>
      {!row && (
        <TextField
          problem={problem}
          label="Name"
          field="name"
          value={draft.name}
          hint={`Its models are asked for as ${draft.name.trim() || "name"}/model.`}
          onInput={(name) => set({ name })}
        />
      )}
      <TextField
        problem={problem}
        label="Address"
        field="base_url"
        value={draft.base_url}
        hint="Where its API begins: http:// or https://, the host and port, often /v1"
        onInput={(base_url) => set({ base_url })}
      />
      <Labelled problem={problem} label="Behaves like" field="like">
        {(attributes) => (
          <select {...attributes} value={draft.like} onChange={(event) => set({ like: event.currentTarget.value })}>
            {templates.map((one) => (
              <option key={one.name} value={one.name}>
                {one.title}
              </option>
            ))}
          </select>
        )}
      </Labelled>
      <TextField
        problem={problem}
        label="Title (optional)"
        field="title"
        value={draft.title}
        onInput={(title) => set({ title })}
      />
      <TextField
        problem={problem}
        label="Key (optional)"
        field="key"
        type="password"
        value={draft.key}
        hint={keyHint(row, draft)}
        onInput={(key) => set({ key })}
      />
      {isExposed(draft.base_url) && (
        <p class="provider-warning" role="status">
          {EXPOSURE_WARNING}
        </p>
      )}
      <Labelled
        problem={problem}
        label="Models, one per line (optional)"
        field="models"
        hint="Empty: the models that the provider lists. A provider without a list needs them."
      >
        {(attributes) => (
          <textarea
            {...attributes}
            rows={3}
            spellcheck={false}
            value={draft.models}
            onInput={(event) => set({ models: event.currentTarget.value })}
          />
        )}
      </Labelled>
    </>
  );
}

function save(row: ProviderRow | null, draft: CustomProviderDraft, check: boolean): Promise<ProviderRow> {
  const body = customProviderBody(draft, row === null, check);
  if (row) return askAdmin<ProviderRow>(customProviderPath(row.name), "PUT", body, row.etag);
  return askAdmin<ProviderRow>("custom-providers", "POST", body);
}

/** What becomes of a key that is stored. */
function keyHint(row: ProviderRow | null, draft: CustomProviderDraft): string {
  if (!row?.stored) return "";
  if (sameOrigin(draft.base_url, row.base_url)) return "Empty: the stored one stays.";
  return `The stored one is for ${row.origin} only, and is removed. If this provider needs a key, enter it.`;
}
