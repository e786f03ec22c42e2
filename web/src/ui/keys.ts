// Keyboard keys: a view says which it answers, the newest word wins, and the help shows what is active.
import { signal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";

export interface Binding {
  /** As `KeyboardEvent.key` has them; several do the same. */
  keys: string[];
  label: string;
  /** Absent: what has the focus does it, and the keys are only listed in the help. */
  run?: () => void;
}

interface Group {
  title: string;
  bindings: Binding[];
}

/** The title of the keys that every view has. */
export const EVERYWHERE = "Everywhere";

export const groups = signal<Group[]>([]);

/** Binds keys while the component is there: from when it is drawn, not a moment later. `active` false: they rest. */
export function useKeys(title: string, bindings: Binding[], active = true): void {
  const latest = useRef(bindings);
  latest.current = bindings;
  useLayoutEffect(() => {
    if (!active) return;
    const group: Group = {
      title,
      // What a binding does may change with each rendering; which there are does not.
      bindings: latest.current.map((binding, index) => ({
        ...binding,
        ...(binding.run && { run: () => latest.current[index]?.run?.() }),
      })),
    };
    groups.value = [...groups.value, group];
    return () => {
      groups.value = groups.value.filter((other) => other !== group);
    };
  }, [title, active]);
}

const WRITING = new Set(["INPUT", "TEXTAREA", "SELECT"]);
const PRESSING = new Set(["BUTTON", "A", "SUMMARY"]);

/** Whether the key belongs to what has the focus, and not to the page. */
function taken(target: EventTarget | null, key: string): boolean {
  if (!(target instanceof HTMLElement) || key === "Escape") return false;
  if (WRITING.has(target.tagName) || target.isContentEditable) return true;
  if (PRESSING.has(target.tagName)) return key === "Enter" || key === " ";
  if (target.closest('[role="tablist"], [role="radiogroup"], [role="slider"], [role="separator"]'))
    return key.startsWith("Arrow");
  return false;
}

export function startKeys(): void {
  addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (taken(event.target, event.key)) return;
    for (const group of groups.value.toReversed()) {
      const binding = group.bindings.find((one) => one.run && one.keys.includes(event.key));
      if (!binding) continue;
      event.preventDefault();
      binding.run?.();
      return;
    }
  });
}
