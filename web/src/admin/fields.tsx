// Values of a form, each with its label and the error that is about it.
import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";

export interface Problem {
  field: string;
  message: string;
}

export const NO_PROBLEM: Problem = { field: "", message: "" };

interface TextProps {
  label: string;
  field: string;
  value: string;
  type?: "text" | "number" | "datetime-local" | "password";
  problem: Problem;
  onInput: (text: string) => void;
}

export function TextField({ label, field, value, type = "text", problem, onInput }: TextProps) {
  const take = (event: InputEvent & { currentTarget: HTMLInputElement }) => onInput(event.currentTarget.value);
  return (
    <Labelled label={label} field={field} problem={problem}>
      {(attributes) => {
        const rest = { ...attributes, autocomplete: "off", value, onInput: take } as const;
        if (type === "number") return <input {...rest} type="number" />;
        if (type === "password") return <input {...rest} type="password" spellcheck={false} />;
        return type === "text" ? <input {...rest} type="text" /> : <input {...rest} type="datetime-local" />;
      }}
    </Labelled>
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
  children: (attributes: Attributes) => ComponentChildren;
}

/** A value with its label, and the error that is about it. */
export function Labelled({ label, field, problem, children }: LabelledProps) {
  const id = useId();
  const wrong = problem.field === field;
  return (
    <div class="key-field">
      <label for={id}>{label}</label>
      {children({ id, "aria-invalid": wrong, "aria-describedby": wrong ? `${id}-error` : undefined })}
      {wrong && (
        <p class="admin-error" role="alert" id={`${id}-error`}>
          {problem.message}
        </p>
      )}
    </div>
  );
}
