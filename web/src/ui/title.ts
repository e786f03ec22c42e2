// The title of the browser's tab: what is shown, in which view.
import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { visibleText } from "./visibleText.ts";

/** What a view shows just now; empty where its name says all. */
const subject = signal("");

export function formatTitle(view: string): string {
  return [visibleText(subject.value), view, "penstock"].filter(Boolean).join(" · ");
}

/** Says what is shown, for as long as the component is there. */
export function useSubject(text: string): void {
  useEffect(() => {
    subject.value = text;
    return () => {
      subject.value = "";
    };
  }, [text]);
}
