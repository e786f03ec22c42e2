// A dialog with a form: its values, what is wrong with it as a whole, Cancel, and the button that sends it.
import type { ComponentChildren } from "preact";
import { Dialog } from "./Dialog.tsx";
import type { useFormSubmit } from "./useFormSubmit.ts";

interface Props {
  title: string;
  submission: ReturnType<typeof useFormSubmit>;
  /** The fields that show what is wrong with them. */
  fields: ReadonlySet<string>;
  button: string;
  /** Whether something is missing without which the form cannot be sent. */
  incomplete?: boolean;
  onClose: () => void;
  children: ComponentChildren;
}

export function FormDialog({ title, submission, fields, button, incomplete = false, onClose, children }: Props) {
  const { form, problem, busy, submit } = submission;
  const placed = fields.has(problem.field) || (fields.has("limits") && problem.field.startsWith("limits"));
  return (
    <Dialog title={title} onClose={onClose}>
      <form ref={form} class="key-form" onSubmit={submit} noValidate>
        {problem.message && !placed && (
          <p class="admin-error" role="alert" tabIndex={-1}>
            {problem.message}
          </p>
        )}
        {children}
        <div class="dialog-buttons">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" class="main" disabled={busy || incomplete}>
            {button}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
