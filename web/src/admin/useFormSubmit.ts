// Submits a form: one request at a time, and none with a value that cannot be read. The wrong field gets the focus.
import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { findUnreadable, NO_PROBLEM, type Problem, problemOf } from "./problems.ts";

interface FormSubmission {
  form: RefObject<HTMLFormElement | null>;
  problem: Problem;
  busy: boolean;
  submit: (event: SubmitEvent) => Promise<void>;
}

export function useFormSubmit(send: () => Promise<void>): FormSubmission {
  const form = useRef<HTMLFormElement>(null);
  const [problem, setProblem] = useState(NO_PROBLEM);
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    if (!problem.message) return;
    const wrong = form.current?.querySelector<HTMLElement>('[aria-invalid="true"]');
    (wrong ?? form.current?.querySelector<HTMLElement>(".admin-error"))?.focus();
  }, [problem]);
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    if (busy) return;
    const unreadable = form.current && findUnreadable(form.current);
    if (unreadable) return setProblem(unreadable);
    setBusy(true);
    setProblem(NO_PROBLEM);
    try {
      await send();
    } catch (error) {
      setProblem(problemOf(error));
      setBusy(false);
    }
  };
  return { form, problem, busy, submit };
}
