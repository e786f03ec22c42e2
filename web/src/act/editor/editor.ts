// A JSON editor with completion and checking by a schema. Loaded on demand: it is as large as all the rest of the page.
// It lives in a shadow root, where CodeMirror's styles are style sheets and not inline styles, which the page forbids.
import {
  autocompletion,
  type CompletionContext,
  type CompletionResult,
  closeBrackets,
  closeBracketsKeymap,
  completionKeymap,
} from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { json, jsonParseLinter } from "@codemirror/lang-json";
import { bracketMatching, foldGutter, HighlightStyle, syntaxHighlighting, syntaxTree } from "@codemirror/language";
import { type Diagnostic, linter, lintGutter, lintKeymap } from "@codemirror/lint";
import { Compartment, EditorState, type Extension } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import type { Schema } from "../schemas.ts";
import { findProblems, namesIn, schemaAt } from "./schemaTree.ts";

export interface JsonEditorHandle {
  setText: (text: string) => void;
  setSchema: (schema: Schema | null) => void;
  destroy: () => void;
}

const MOST_CHECKED = 300_000; // characters: a longer text is edited, and not checked at every pause

const COLORS = HighlightStyle.define([
  { tag: tags.propertyName, color: "var(--json-key)" },
  { tag: tags.string, color: "var(--json-string)" },
  { tag: tags.number, color: "var(--json-number)" },
  { tag: [tags.bool, tags.null], color: "var(--json-word)" },
]);

const THEME = EditorView.theme({
  "&": { height: "100%", color: "var(--ink)", backgroundColor: "var(--sunken)", fontSize: "var(--small)" },
  "&.cm-focused": { outline: "2px solid var(--focus)" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.5" },
  ".cm-content": { caretColor: "var(--ink)" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  ".cm-gutters": { backgroundColor: "var(--raised)", color: "var(--faint)", borderRight: "1px solid var(--line)" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "color-mix(in srgb, var(--hover) 60%, transparent)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    backgroundColor: "var(--chosen)",
  },
  ".cm-tooltip": { backgroundColor: "var(--raised)", color: "var(--ink)", border: "1px solid var(--line-strong)" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--chosen)", color: "var(--ink)" },
  ".cm-foldPlaceholder": { backgroundColor: "var(--hover)", color: "var(--soft)", border: "1px solid var(--line)" },
});

export function createJsonEditor(
  host: HTMLElement,
  options: { text: string; label: string; schema: Schema | null; onChange: (text: string) => void },
): JsonEditorHandle {
  const root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
  const place = document.createElement("div");
  place.style.height = "100%";
  place.addEventListener("keydown", (event) => event.stopPropagation()); // the page's keys do not hear what is typed
  root.replaceChildren(place);
  const checking = new Compartment();
  let setting = false; // a change that comes from the page is not reported to it
  const view = new EditorView({
    root,
    parent: place,
    state: EditorState.create({
      doc: options.text,
      extensions: [
        basics(options.label),
        checking.of(schemaExtensions(options.schema)),
        EditorView.updateListener.of((update) => {
          if (update.docChanged && !setting) options.onChange(update.state.doc.toString());
        }),
      ],
    }),
  });
  return {
    setText: (text) => {
      if (text === view.state.doc.toString()) return;
      setting = true;
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
      setting = false;
    },
    setSchema: (schema) => view.dispatch({ effects: checking.reconfigure(schemaExtensions(schema)) }),
    destroy: () => view.destroy(),
  };
}

function basics(label: string): Extension {
  return [
    lineNumbers(),
    foldGutter(),
    history(),
    drawSelection(),
    bracketMatching(),
    closeBrackets(),
    highlightActiveLine(),
    json(),
    lintGutter(),
    syntaxHighlighting(COLORS),
    THEME,
    EditorView.lineWrapping,
    EditorView.contentAttributes.of({ "aria-label": label }),
    keymap.of([
      ...closeBracketsKeymap,
      ...completionKeymap,
      ...defaultKeymap,
      ...historyKeymap,
      ...lintKeymap,
      indentWithTab,
    ]),
  ];
}

function schemaExtensions(schema: Schema | null): Extension {
  const parse = jsonParseLinter();
  return [
    linter((view): Diagnostic[] => {
      const { length } = view.state.doc;
      if (length > MOST_CHECKED) return [];
      const broken = parse(view);
      if (broken.length || !schema) return broken;
      const read = (from: number, to: number) => view.state.sliceDoc(from, to);
      return findProblems(syntaxTree(view.state).topNode, schema, read);
    }),
    autocompletion(schema ? { override: [(context) => complete(context, schema)] } : {}),
  ];
}

function complete(context: CompletionContext, schema: Schema): CompletionResult | null {
  const { state, pos } = context;
  const node = syntaxTree(state).resolveInner(pos, -1);
  const read = (from: number, to: number) => state.sliceDoc(from, to);
  if (node.name === "PropertyName") return names(node.parent?.parent ?? null, node.from, node.to);
  if (node.name === "Object" && context.explicit) return names(node, pos, pos);
  if (node.name === "String") return values(node, node.from, node.to);
  if (node.name === "Property" && context.explicit) return values(node, pos, pos);
  return null;

  function names(object: typeof node | null, from: number, to: number): CompletionResult | null {
    const properties = object && schemaAt(object, schema, read)?.properties;
    if (!properties) return null;
    const taken = namesIn(object, read);
    const typed = read(from, pos).replace(/^"/, "");
    const free = Object.entries(properties).filter(([name]) => !taken.has(name) && name.includes(typed));
    const colon = /^\s*:/.test(read(to, to + 20)) ? "" : ": ";
    const options = free.map(([name, { description = "", type = "" }]) => ({
      label: JSON.stringify(name),
      detail: [type].flat().join(" | "),
      ...(description && { info: description }),
      apply: JSON.stringify(name) + colon,
      type: "property",
    }));
    return { from, to, options, filter: false };
  }

  function values(value: typeof node, from: number, to: number): CompletionResult | null {
    const choices = schemaAt(value, schema, read)?.enum;
    if (!choices) return null;
    const typed = read(from, pos).replace(/^"/, "");
    const fitting = choices.filter((choice) => String(choice).includes(typed));
    const options = fitting.map((choice) => ({ label: JSON.stringify(choice), type: "enum" }));
    return { from, to, options, filter: false };
  }
}
