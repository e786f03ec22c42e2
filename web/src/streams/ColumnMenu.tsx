// Chooses the columns of the list.
import { useEffect, useRef, useState } from "preact/hooks";
import { keepSettings, settings } from "./columnSettings.ts";
import { LIST_COLUMNS } from "./columns.tsx";

export function ColumnMenu({ shown }: { shown: string[] }) {
  const [open, setOpen] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!open) return;
    const close = (event: Event) => {
      if (event instanceof KeyboardEvent ? event.key === "Escape" : !box.current?.contains(event.target as Node)) {
        setOpen(false);
        event.stopPropagation();
      }
    };
    addEventListener("pointerdown", close, true);
    addEventListener("keydown", close, true);
    return () => {
      removeEventListener("pointerdown", close, true);
      removeEventListener("keydown", close, true);
    };
  }, [open]);
  const toggle = (id: string) => {
    const next = LIST_COLUMNS.map((column) => column.id).filter((one) => (one === id) !== shown.includes(one));
    if (next.length) keepSettings({ ...settings.value, shown: next });
  };
  return (
    <div class="column-menu" ref={box}>
      <button type="button" aria-expanded={open} aria-controls="column-choices" onClick={() => setOpen(!open)}>
        Columns
      </button>
      <fieldset id="column-choices" class="column-choices" hidden={!open}>
        <legend class="unseen">Columns of the list</legend>
        {LIST_COLUMNS.map((column) => (
          <label key={column.id}>
            <input type="checkbox" checked={shown.includes(column.id)} onChange={() => toggle(column.id)} />
            {column.label ?? column.title}
          </label>
        ))}
        <button type="button" onClick={() => keepSettings({ shown: null, widths: {} })}>
          Reset
        </button>
      </fieldset>
    </div>
  );
}
