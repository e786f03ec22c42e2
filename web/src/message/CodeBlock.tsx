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
      {/* biome-ignore-start lint/a11y: a box that scrolls must be reachable by keys, and is no landmark */}
      <pre tabIndex={0} role="group" aria-label={language ? `${language} code` : "Code"}>
        <code>{text}</code>
      </pre>
      {/* biome-ignore-end lint/a11y: . */}
    </div>
  );
});

const STAYS = 1500;

export function CopyButton({ text, what }: { text: string; what: string }) {
  const [said, setSaid] = useState("");
  useEffect(() => {
    if (!said) return;
    const timer = setTimeout(() => setSaid(""), STAYS);
    return () => clearTimeout(timer);
  }, [said]);
  const copy = () => copyText(text).then((done) => setSaid(done ? "Copied" : "Not allowed"));
  return (
    <button type="button" class="plain copy" aria-label={`Copy ${what}`} onClick={copy}>
      <span aria-live="polite">{said || "Copy"}</span>
    </button>
  );
}

export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false; // no permission, or a page opened from a file
  }
}
