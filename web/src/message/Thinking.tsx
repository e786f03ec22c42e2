// What the model thinks: folded, with its last words in sight while it comes.
import { useState } from "preact/hooks";
import { memo } from "../ui/memo.ts";
import { Markdown } from "./Markdown.tsx";
import { size } from "./outcomes.ts";

interface Props {
  text: string;
  form: string;
  open: boolean;
}

const NAMES: Record<string, string> = {
  full: "Thinking",
  summary: "Thinking, in summary",
  redacted: "Thinking, hidden",
};
const SEEN = 120;

export const Thinking = memo(function Thinking({ text, form, open }: Props) {
  const [unfolded, setUnfolded] = useState(false);
  if (text === "" && !open) {
    return (
      <p class="thinking-none kind-reasoning">{`${NAMES[form] ?? "Thinking"}: its words are not shown by the provider.`}</p>
    );
  }
  const glimpse = (open ? text.slice(-SEEN) : text.slice(0, SEEN)).replace(/\s+/g, " ").replace(/[*#`]/g, "");
  return (
    <details class="thinking kind-reasoning" onToggle={(event) => setUnfolded(event.currentTarget.open)}>
      <summary>
        <span class={open ? "thinking-name pulsing" : "thinking-name"}>{NAMES[form] ?? "Thinking"}</span>
        <span class="thinking-glimpse" dir="auto">
          {unfolded ? "" : glimpse}
        </span>
        <span class="thinking-size">{size(text.length)}</span>
      </summary>
      {unfolded && <Markdown text={text} open={open} />}
    </details>
  );
});
