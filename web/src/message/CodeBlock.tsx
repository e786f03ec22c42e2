// A block of code with a button that copies it.
import { useEffect, useState } from "preact/hooks";
import { memo } from "../ui/memo.ts";

interface Props {
  text: string;
  language: string;
}

export const CodeBlock = memo(function CodeBlock({ text, language }: Props) {
  return (
    <div class="code">
      <div class="code-head">
        <span>{language || "code"}</span>
        <CopyButton text={text} what={language ? `${language} code` : "code"} />
      </div>
      {/* biome-ignore-start lint/a11y: a box that scrolls must be reachable by keys; it is not a landmark */}
      <pre tabIndex={0} role="group" aria-label={language ? `${language} code` : "Code"}>
        <code>{text}</code>
      </pre>
      {/* biome-ignore-end lint/a11y: . */}
    </div>
  );
});

const STAYS = 1500;

interface CopyProps {
  /** What is copied, or how it is got once the button is pressed. */
  text: string | (() => string);
  what: string;
  label?: string;
}

export function CopyButton({ text, what, label = "Copy" }: CopyProps) {
  const [said, setSaid] = useState("");
  useEffect(() => {
    if (!said) return;
    const timer = setTimeout(() => setSaid(""), STAYS);
    return () => clearTimeout(timer);
  }, [said]);
  const copy = async () => {
    const done = await copyText(typeof text === "string" ? text : text());
    setSaid(done ? "Copied" : "Not allowed");
  };
  return (
    <button type="button" class="plain copy" aria-label={`Copy ${what}`} onClick={copy}>
      <span aria-live="polite">{said || label}</span>
    </button>
  );
}

export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copySelection(text); // without TLS, or in a page opened from a file
  }
}

/** The older way, by a selection: it needs no permission. */
function copySelection(text: string): boolean {
  const field = document.createElement("textarea");
  field.value = text;
  field.setAttribute("readonly", "");
  field.className = "unseen";
  document.body.append(field);
  field.select();
  try {
    return document.execCommand("copy");
  } finally {
    field.remove();
  }
}
