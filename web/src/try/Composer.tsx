// Where one writes: Enter sends, Shift+Enter is a new line, and the same button stops an answer.
import { useState } from "preact/hooks";
import { Icon } from "../ui/Icon.tsx";

interface Props {
  busy: boolean;
  onSend: (text: string) => void;
  onStop: () => void;
}

export function Composer({ busy, onSend, onStop }: Props) {
  const [text, setText] = useState("");
  const submit = () => {
    if (busy || !text.trim()) return;
    onSend(text.trim());
    setText("");
  };
  const pressed = (event: KeyboardEvent) => {
    if (event.key === "Escape" && busy) onStop();
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    submit();
  };
  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      <textarea
        rows={2}
        aria-label="What to say"
        placeholder="Say something. Enter sends, Shift+Enter is a new line."
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={pressed}
      />
      {busy ? (
        <button type="button" class="composer-stop" onClick={onStop}>
          <Icon name="close" /> Stop
        </button>
      ) : (
        <button type="submit" class="main" disabled={!text.trim()}>
          Send
        </button>
      )}
    </form>
  );
}
