// Values of a form, each with its label and the error that is about it.
import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";
import type { Problem } from "./problems.ts";

interface TextProps {
  label: string;
  field: string;
  value: string;
  type?: "text" | "number" | "datetime-local" | "password";
  problem: Problem;
  hint?: string;
  onInput: (text: string) => void;
}

export function TextField({ label, field, value, type = "text", problem, hint, onInput }: TextProps) {
  const take = (event: InputEvent & { currentTarget: HTMLInputElement }) => onInput(event.currentTarget.value);
  return (
    <Labelled label={label} field={field} problem={problem} hint={hint}>
      {(attributes) => {
        const rest = { ...attributes, name: field, autocomplete: "off", value, onInput: take } as const;
        if (type === "number") return <input {...rest} type="number" />;
        if (type === "password") return <input {...rest} type="password" spellcheck={false} />;
        return type === "text" ? <input {...rest} type="text" /> : <input {...rest} type="datetime-local" />;
      }}
    </Labelled>
  );
}

interface CheckProps {
  label: string;
  checked: boolean;
  hint?: string;
  onChange: (checked: boolean) => void;
}

/** A box to tick, with words below that say what it does. */
export function CheckField({ label, checked, hint, onChange }: CheckProps) {
  const id = useId();
  return (
    <div class="key-field">
      <label class="check-field">
        <input
          type="checkbox"
          checked={checked}
          aria-describedby={hint ? `${id}-hint` : undefined}
          onChange={(event) => onChange(event.currentTarget.checked)}
        />{" "}
        {label}
      </label>
      {hint && (
        <p class="soft check-hint" id={`${id}-hint`}>
          {hint}
        </p>
      )}
    </div>
  );
}

interface Attributes {
  id: string;
  "aria-invalid": boolean;
  "aria-describedby": string | undefined;
}

interface LabelledProps {
  label: string;
  field: string;
  problem: Problem;
  /** Words below the value that say what is expected. */
  hint?: string | undefined;
  children: (attributes: Attributes) => ComponentChildren;
}

/** A value with its label, and the error that is about it. */
export function Labelled({ label, field, problem, hint, children }: LabelledProps) {
  const id = useId();
  const wrong = problem.field === field;
  const described = [hint ? `${id}-hint` : "", wrong ? `${id}-error` : ""].filter(Boolean).join(" ") || undefined;
  return (
    <div class="key-field">
      <label for={id}>{label}</label>
      {children({ id, "aria-invalid": wrong, "aria-describedby": described })}
      {hint && (
        <p class="soft" id={`${id}-hint`}>
          {hint}
        </p>
      )}
      {wrong && (
        <p class="admin-error" role="alert" id={`${id}-error`}>
          {problem.message}
        </p>
      )}
    </div>
  );
}
