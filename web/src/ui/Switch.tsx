// A few choices of which one holds, as buttons in a row.
import "./switch.css";
import type { ComponentChild } from "preact";

export interface Choice<T extends string> {
  value: T;
  label: ComponentChild;
  title?: string;
}

interface Props<T extends string> {
  label: string;
  /** Stands before the buttons. */
  lead?: string;
  choices: Choice<T>[];
  chosen: string;
  onChoose: (value: T) => void;
  small?: boolean;
}

export function Switch<T extends string>({ label, lead, choices, chosen, onChoose, small }: Props<T>) {
  return (
    <fieldset class={small ? "switch small" : "switch"}>
      <legend class="unseen">{label}</legend>
      {lead && (
        <span class="switch-lead" aria-hidden="true">
          {lead}
        </span>
      )}
      {choices.map((choice) => (
        <button
          key={choice.value}
          type="button"
          aria-pressed={choice.value === chosen}
          title={choice.title}
          onClick={() => onChoose(choice.value)}
        >
          {choice.label}
        </button>
      ))}
    </fieldset>
  );
}
