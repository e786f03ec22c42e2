// The overlay with the keys that are active now.
import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { Icon } from "../ui/Icon.tsx";
import { EVERYWHERE, groups } from "../ui/keys.ts";

export const helpOpen = signal(false);

export function toggleHelp(): void {
  helpOpen.value = !helpOpen.value;
}

export function HelpButton() {
  return (
    <button type="button" class="plain bar-help" aria-label="Keyboard keys" onClick={toggleHelp}>
      <Icon name="help" />
    </button>
  );
}

const SHOWN: Record<string, string> = {
  ArrowDown: "↓",
  ArrowUp: "↑",
  ArrowLeft: "←",
  ArrowRight: "→",
  Escape: "Esc",
  " ": "Space",
  Enter: "Enter",
};

export function Help() {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    dialog.current?.showModal();
  }, []);
  const close = () => {
    helpOpen.value = false;
  };
  return (
    <dialog
      ref={dialog}
      class="help"
      aria-labelledby="help-title"
      onClose={close}
      onKeyDown={(event) => closeBy(event, close)}
    >
      <div class="help-head">
        <h2 id="help-title">Keys</h2>
        <button type="button" class="plain" onClick={close} aria-label="Close">
          <Icon name="close" />
        </button>
      </div>
      <div class="help-groups">
        {inOrder().map((group) => (
          <section key={group.title} aria-label={group.title}>
            <h3>{group.title}</h3>
            <dl>
              {group.bindings.map((binding) => (
                <div key={binding.label}>
                  <dt>
                    {binding.keys.map((key) => (
                      <kbd key={key}>{SHOWN[key] ?? key}</kbd>
                    ))}
                  </dt>
                  <dd>{binding.label}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
    </dialog>
  );
}

/** What is special to this view comes first. */
function inOrder() {
  return groups.value.toSorted((a, b) => Number(a.title === EVERYWHERE) - Number(b.title === EVERYWHERE));
}

function closeBy(event: KeyboardEvent, close: () => void): void {
  event.stopPropagation(); // the page behind does not listen meanwhile
  if (event.key !== "?" && event.key !== "Escape") return;
  event.preventDefault();
  close();
}
