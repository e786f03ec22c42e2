// Asks for the gateway's key when the gateway wants one.
import { useEffect, useRef, useState } from "preact/hooks";
import { keepKey, key } from "../api/key.ts";

export function KeyQuestion() {
  const [text, setText] = useState("");
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => input.current?.focus(), []);
  const send = (event: SubmitEvent) => {
    event.preventDefault();
    if (text.trim()) keepKey(text.trim());
  };
  return (
    <form class="key-question" onSubmit={send}>
      <h1>This gateway wants a key</h1>
      <p>
        {key.value ? "The one that was sent is not known to it. " : ""}
        One of those set in its configuration. It stays in this tab and is forgotten when the tab is closed.
      </p>
      <label>
        <span class="unseen">Key</span>
        <input
          ref={input}
          type="password"
          autocomplete="off"
          spellcheck={false}
          value={text}
          placeholder="key"
          onInput={(event) => setText(event.currentTarget.value)}
        />
      </label>
      <button type="submit" class="main">
        Open
      </button>
    </form>
  );
}
