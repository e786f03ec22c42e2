// What is wrong with a form: which value, and why.
import { AdminError, describe } from "./api.ts";

export interface Problem {
  /** The field of the admin API; empty if the problem is not about a value. */
  field: string;
  message: string;
}

export const NO_PROBLEM: Problem = { field: "", message: "" };

/** The error without the name of its field: it stands at the value. A whole sentence may begin with a name. */
export function problemOf(error: unknown): Problem {
  const field = error instanceof AdminError ? error.field : "";
  const words = describe(error).replace(field ? `${field}: ` : "", "");
  return { field, message: words.endsWith(".") ? words : words.slice(0, 1).toUpperCase() + words.slice(1) };
}

/** What was typed and is not a value: a browser gives an empty text for half a date, which would mean "never". */
export function findUnreadable(form: HTMLFormElement): Problem | null {
  const wrong = [...form.querySelectorAll("input")].find((input) => input.validity.badInput);
  if (!wrong) return null;
  const message =
    wrong.type === "number" ? "This is not a number" : "Enter the whole date and time, or clear all of its parts";
  return { field: wrong.name, message };
}
