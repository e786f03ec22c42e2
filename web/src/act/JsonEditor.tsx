// The JSON editor, loaded when it is first shown. Until then, and where it cannot be loaded, a plain text box.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { JsonEditorHandle } from "./editor/editor.ts";
import type { Schema } from "./schemas.ts";

const PREVIEW_CHARACTERS = 20_000; // characters of a text that are shown while the editor is loaded: a text box of a megabyte takes seconds

/** Begins to load the editor: it is ready sooner if that happens while the request is asked for. */
export function loadEditor(): Promise<typeof import("./editor/editor.ts")> {
  return import("./editor/editor.ts");
}

interface Props {
  text: string;
  label: string;
  schema?: Schema | null;
  onChange: (text: string) => void;
}

export function JsonEditor({ text, label, schema = null, onChange }: Props) {
  const host = useRef<HTMLDivElement>(null);
  const handle = useRef<JsonEditorHandle | null>(null);
  const latest = useRef({ text, schema, onChange });
  latest.current = { text, schema, onChange };
  const [state, setState] = useState<"loading" | "ready" | "failed">("loading");
  useEffect(() => {
    let gone = false;
    loadEditor().then(
      ({ createJsonEditor }) => {
        if (gone || !host.current) return;
        const { text: first, schema: known } = latest.current;
        const change = (changed: string) => latest.current.onChange(changed);
        handle.current = createJsonEditor(host.current, { text: first, label, schema: known, onChange: change });
        setState("ready");
      },
      () => gone || setState("failed"),
    );
    return () => {
      gone = true;
      handle.current?.destroy();
      handle.current = null;
    };
  }, [label]);
  // At once: an effect after the next paint could set a text that has been edited since.
  useLayoutEffect(() => handle.current?.setText(text), [text]);
  useEffect(() => handle.current?.setSchema(schema), [schema]);
  return (
    <div class="json-editor">
      {state === "loading" && text.length > PREVIEW_CHARACTERS && <p class="hint">The editor is loading …</p>}
      {state === "failed" && <p class="hint">The editor could not be loaded; this is a plain text box.</p>}
      {state !== "ready" && (
        <textarea
          class="mono"
          aria-label={label}
          spellcheck={false}
          value={state === "loading" ? text.slice(0, PREVIEW_CHARACTERS) : text}
          readOnly={state === "loading"}
          onInput={(event) => onChange(event.currentTarget.value)}
        />
      )}
      <div ref={host} class={state === "ready" ? "json-editor-host" : "json-editor-host waiting"} />
    </div>
  );
}
