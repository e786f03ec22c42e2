// What is kept of turns, at the foot of the list: one line, and a dialog with the switches.
import { formatMany } from "../ui/format.ts";
import "./keeping.css";
import { useEffect, useRef, useState } from "preact/hooks";
import { about } from "../api/about.ts";
import { Icon } from "../ui/Icon.tsx";
import {
  deleteTurns,
  type Keeping,
  keeping,
  keepingError,
  readKeeping,
  share,
  summary,
  switchKeeping,
} from "./keeping.ts";

const AGAIN = 60_000; // milliseconds between two looks: a disk may be full meanwhile

export function KeepingButton() {
  const [open, setOpen] = useState(false);
  const live = about.value?.live ?? false; // without a gateway nothing is kept
  useEffect(() => {
    if (!live) return;
    void readKeeping();
    const timer = setInterval(() => void readKeeping(), AGAIN);
    return () => clearInterval(timer);
  }, [live]);
  const now = keeping.value;
  if (!now) return null;
  return (
    <>
      <button
        type="button"
        class={now.disk.on && now.disk.problem ? "plain keeping-open error" : "plain keeping-open"}
        onClick={() => setOpen(true)}
      >
        {summary(now)}
      </button>
      {open && <KeepingDialog now={now} onClose={() => setOpen(false)} />}
    </>
  );
}

function KeepingDialog({ now, onClose }: { now: Keeping; onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    dialog.current?.showModal();
    void readKeeping();
  }, []);
  return (
    <dialog
      ref={dialog}
      class="keeping"
      aria-labelledby="keeping-title"
      onClose={onClose}
      onKeyDown={(event) => event.stopPropagation()}
    >
      <div class="keeping-head">
        <h2 id="keeping-title">What is kept</h2>
        <button type="button" class="plain" onClick={onClose} aria-label="Close">
          <Icon name="close" />
        </button>
      </div>
      <MemoryPart now={now} />
      <DiskPart now={now} />
      <DeletePart />
      {!now.may_switch && <p class="hint">Who sees all turns may switch this, on a gateway of one process.</p>}
      {keepingError.value && (
        <p class="error" role="alert">
          {keepingError.value}
        </p>
      )}
    </dialog>
  );
}

function MemoryPart({ now }: { now: Keeping }) {
  const { memory, paused } = now;
  return (
    <section aria-label="In memory">
      <h3>In memory</h3>
      <p>
        {`${formatMany(memory.turns, "turn")}, ${share(memory.bytes, memory.size)}. `}
        {now.keeps
          ? "The newest are kept until the gateway stops."
          : "Turns are kept while a page is open. A key with inspect_keep has its turns kept at all times."}
      </p>
      <button type="button" disabled={!now.may_switch} onClick={() => switchKeeping({ paused: !paused })}>
        {paused ? "Resume keeping" : "Pause keeping"}
      </button>
      {paused && <p class="hint">Turns that begin now are not kept, neither in memory nor on disk.</p>}
    </section>
  );
}

function DiskPart({ now }: { now: Keeping }) {
  const { disk } = now;
  const held =
    disk.turns === undefined
      ? ""
      : `${formatMany(disk.turns, "turn")}${disk.bytes === undefined ? "" : `, ${share(disk.bytes, disk.size)}`}. `;
  return (
    <section aria-label="On disk">
      <h3>On disk</h3>
      <p>
        {held}
        {`Up to ${Math.round(disk.size / 1024 / 1024)} MB and ${formatMany(disk.days, "day")}, secrets removed, readable by you only.`}
      </p>
      <label class="keeping-switch">
        <input
          type="checkbox"
          checked={disk.on}
          disabled={!now.may_switch || !disk.possible}
          onChange={(event) => switchKeeping({ disk: event.currentTarget.checked })}
        />
        Keep turns on disk
      </label>
      <p class="hint">
        {disk.possible
          ? "Until the gateway is restarted. inspector.keep = true in penstock.toml keeps it on."
          : "This gateway has no data folder."}
      </p>
      {disk.damaged ? (
        <p class="hint">
          {`${formatMany(disk.damaged, "turn")} on disk cannot be read: the content is damaged. The log has the ids. Delete removes them.`}
        </p>
      ) : null}
      {disk.problem && <p class="error">{disk.problem}</p>}
    </section>
  );
}

function DeletePart() {
  const [asked, setAsked] = useState(false);
  const run = () => {
    setAsked(false);
    void deleteTurns();
  };
  return (
    <section aria-label="Delete">
      <h3>Delete</h3>
      <p>
        Prompts, answers and frames of all finished turns, in memory, on disk and in the search. Rows and figures stay.
      </p>
      {asked ? (
        <p class="keeping-sure">
          <button type="button" class="danger" onClick={run}>
            Delete all now
          </button>
          <button type="button" onClick={() => setAsked(false)}>
            Cancel
          </button>
        </p>
      ) : (
        <button type="button" onClick={() => setAsked(true)}>
          Delete all …
        </button>
      )}
    </section>
  );
}
