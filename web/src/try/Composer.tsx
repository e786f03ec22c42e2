// Where one writes: Enter sends, Shift+Enter is a new line, images are chosen or pasted, and the same button stops an
// answer. If the last answer has called tools, their results are written here too.
import { useRef, useState } from "preact/hooks";
import { Icon } from "../ui/Icon.tsx";
import { callsToAnswer, canContinue, type ToolResult } from "./history.ts";
import { attachedImages, clearMessage, type Exchange, type Message, opening, resultTexts, writing } from "./session.ts";

interface Props {
  busy: boolean;
  exchanges: Exchange[];
  /** Returns whether the message was accepted. */
  onSend: (message: Message) => boolean;
  onStop: () => void;
}

const MOST_IMAGES = 8;
const LARGEST_IMAGE = 8 * 1024 * 1024; // bytes

export function Composer({ busy, exchanges, onSend, onStop }: Props) {
  const [problem, setProblem] = useState("");
  const images = attachedImages.value;
  const results = resultTexts.value;
  const calls = callsToAnswer(exchanges);
  const answered = calls.flatMap(({ id, name }): ToolResult[] =>
    results[id] ? [{ id, name, text: results[id] }] : [],
  );
  const text = writing.value;
  const continues = canContinue(opening.value !== null, exchanges); // the messages of an opened turn may be enough
  const sendable = text.trim() !== "" || images.length > 0 || answered.length > 0 || continues;
  const submit = () => {
    if (busy || !sendable) return;
    if (onSend({ said: text.trim(), images, results: answered })) clearMessage();
  };
  const stopped = (event: Event) => {
    event.preventDefault(); // the same element may be the Send button before the click is over
    onStop();
  };
  const addFiles = async (files: readonly File[]) => {
    const { read, refused } = await readImages(files);
    attachedImages.value = [
      ...attachedImages.value,
      ...read.slice(0, Math.max(0, MOST_IMAGES - attachedImages.value.length)),
    ];
    setProblem(refused);
  };
  const removeImage = (index: number) => {
    attachedImages.value = images.filter((_, other) => other !== index);
  };
  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      {calls.map(({ id, name, json }) => (
        <label key={id} class="tool-result">
          <span>{`Result of ${name}(${json.slice(0, 80)})`}</span>
          <textarea
            rows={1}
            class="mono"
            value={results[id] ?? ""}
            onInput={(event) => {
              resultTexts.value = { ...results, [id]: event.currentTarget.value };
            }}
          />
        </label>
      ))}
      <Images images={images} onRemove={removeImage} />
      {problem && <p class="send-error">{problem}</p>}
      <div class="composer-line">
        <MessageBox onSubmit={submit} onFiles={addFiles} busy={busy} onStop={onStop} />
        <ImageButton onFiles={addFiles} />
        {busy ? (
          <button type="button" class="composer-stop" onClick={stopped}>
            <Icon name="close" /> Stop
          </button>
        ) : (
          // The second click of a double click on Stop must not send the message again.
          <button
            type="submit"
            class="main"
            disabled={!sendable}
            onClick={(event) => event.detail > 1 && event.preventDefault()}
          >
            Send
          </button>
        )}
      </div>
    </form>
  );
}

interface BoxProps {
  busy: boolean;
  onSubmit: () => void;
  onStop: () => void;
  onFiles: (files: readonly File[]) => void;
}

function MessageBox({ busy, onSubmit, onStop, onFiles }: BoxProps) {
  const pressed = (event: KeyboardEvent) => {
    if (event.key === "Escape" && busy) onStop();
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    onSubmit();
  };
  const pasted = (event: ClipboardEvent) => {
    const files = [...(event.clipboardData?.files ?? [])].filter(({ type }) => type.startsWith("image/"));
    if (files.length === 0) return;
    event.preventDefault();
    onFiles(files);
  };
  return (
    <textarea
      rows={2}
      aria-label="Your message"
      placeholder="Write a message. Enter sends, Shift+Enter is a new line."
      value={writing.value}
      onInput={(event) => {
        writing.value = event.currentTarget.value;
      }}
      onKeyDown={pressed}
      onPaste={pasted}
    />
  );
}

function ImageButton({ onFiles }: { onFiles: (files: readonly File[]) => void }) {
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <button type="button" onClick={() => input.current?.click()} title="Or paste one into the message">
        Add image
      </button>
      <input
        ref={input}
        type="file"
        class="unseen"
        accept="image/*"
        multiple
        tabIndex={-1}
        aria-label="Images"
        onChange={(event) => {
          onFiles([...(event.currentTarget.files ?? [])]);
          event.currentTarget.value = "";
        }}
      />
    </>
  );
}

function Images({ images, onRemove }: { images: string[]; onRemove: (index: number) => void }) {
  if (images.length === 0) return null;
  return (
    <ul class="composer-images">
      {images.map((url, index) => (
        <li key={url.slice(-40)}>
          <img src={url} alt={`Attached, ${index + 1}`} />
          <button type="button" class="plain" aria-label={`Remove image ${index + 1}`} onClick={() => onRemove(index)}>
            <Icon name="close" />
          </button>
        </li>
      ))}
    </ul>
  );
}

async function readImages(files: readonly File[]): Promise<{ read: string[]; refused: string }> {
  const right = files.filter(({ type, size }) => type.startsWith("image/") && size <= LARGEST_IMAGE);
  const read = await Promise.all(right.map(dataAddress));
  return { read, refused: right.length < files.length ? "Only images of up to 8 MB can be added." : "" };
}

function dataAddress(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}
