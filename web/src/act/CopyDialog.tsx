// "Copy as": a turn's request as a command or a program, with what it does not express.
import "./act.css";
import { useEffect, useRef, useState } from "preact/hooks";
import { askJson, explain } from "../api/client.ts";
import { copyText } from "../message/CodeBlock.tsx";
import { Icon } from "../ui/Icon.tsx";
import { LongText } from "../ui/LongText.tsx";
import { Switch } from "../ui/Switch.tsx";

interface Copied {
  language: string;
  text: string;
  notes: string[];
}

const FORMS = [
  { value: "curl", label: "curl", title: "For a shell" },
  { value: "penstock", label: "Python: penstock", title: "penstock.SyncClient" },
  { value: "openai", label: "Python: OpenAI", title: "The OpenAI SDK" },
  { value: "anthropic", label: "Python: Anthropic", title: "The Anthropic SDK" },
  { value: "aisdk", label: "TypeScript: AI SDK", title: "The AI SDK, version 5 or later" },
];
const REMEMBERED = "penstock-copy-form";

export function CopyDialog({ id, onClose }: { id: string; onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [form, setForm] = useState(rememberedForm);
  const { copied, error } = useCopied(id, form);
  useEffect(() => dialog.current?.showModal(), []);
  const [said, setSaid] = useState("");
  const copy = async () => setSaid((await copyText(copied?.text ?? "")) ? "Copied." : "The browser does not allow it.");
  const choose = (value: string) => {
    setSaid("");
    setForm(value);
    rememberForm(value);
  };
  return (
    <dialog
      ref={dialog}
      class="copy-dialog"
      aria-labelledby="copy-title"
      onClose={onClose}
      onKeyDown={(event) => event.stopPropagation()}
    >
      <div class="copy-head">
        <h2 id="copy-title">Copy the request as</h2>
        <button type="button" class="plain" aria-label="Close" onClick={() => dialog.current?.close()}>
          <Icon name="close" />
        </button>
      </div>
      <Switch label="Form" choices={FORMS} chosen={form} onChoose={choose} />
      {error && <p class="send-error">{error}</p>}
      {copied && (
        <>
          <ul class="copy-notes">
            {copied.notes.map((note) => (
              <li key={note}>{note}</li>
            ))}
            {copied.text.includes("PENSTOCK_KEY") && <li>The key is read from the variable PENSTOCK_KEY.</li>}
          </ul>
          {/* biome-ignore-start lint/a11y: a box that scrolls must be reachable by keys; it is not a landmark */}
          <div class="copy-text" tabIndex={0} role="group" aria-label="What is copied">
            <LongText text={copied.text} />
          </div>
          {/* biome-ignore-end lint/a11y: . */}
          <p class="copy-foot">
            <span role="status">{said}</span>
            <button type="button" class="main" onClick={copy}>
              Copy
            </button>
          </p>
        </>
      )}
    </dialog>
  );
}

function useCopied(id: string, form: string): { copied: Copied | null; error: string } {
  const [copied, setCopied] = useState<Copied | null>(null);
  const [error, setError] = useState("");
  useEffect(() => {
    const gone = new AbortController();
    const query = new URLSearchParams({ as: form, base: location.origin });
    setCopied(null);
    setError("");
    askJson<Copied>(`/inspector/turns/${encodeURIComponent(id)}/copy?${query}`, { signal: gone.signal })
      .then(setCopied)
      .catch((why) => gone.signal.aborted || setError(explain(why)));
    return () => gone.abort();
  }, [id, form]);
  return { copied, error };
}

function rememberedForm(): string {
  try {
    const kept = localStorage.getItem(REMEMBERED);
    return FORMS.some(({ value }) => value === kept) ? (kept ?? "curl") : "curl";
  } catch {
    return "curl";
  }
}

function rememberForm(form: string): void {
  try {
    localStorage.setItem(REMEMBERED, form);
  } catch {
    // for this visit only
  }
}
