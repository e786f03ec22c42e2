// Tabs: arrows move between them, and only the chosen one's content is there.
import "./tabs.css";
import type { ComponentChild } from "preact";
import { useId } from "preact/hooks";

export interface Tab {
  id: string;
  label: string;
  content: () => ComponentChild;
  /** The content scrolls by itself. */
  fills?: boolean;
}

interface Props {
  label: string;
  tabs: Tab[];
  chosen: string;
  onChoose: (id: string) => void;
}

const MOVES: Record<string, number> = { ArrowLeft: -1, ArrowRight: 1 };

export function Tabs({ label, tabs, chosen, onChoose }: Props) {
  const prefix = useId();
  const now = tabs.find((tab) => tab.id === chosen) ?? tabs[0];
  if (!now) return null;
  const move = (event: KeyboardEvent & { currentTarget: HTMLElement }) => {
    const by = MOVES[event.key];
    if (by === undefined) return;
    event.preventDefault();
    const next = tabs[(tabs.indexOf(now) + by + tabs.length) % tabs.length];
    if (!next) return;
    onChoose(next.id);
    event.currentTarget.querySelector<HTMLElement>(`#${CSS.escape(`${prefix}-${next.id}`)}`)?.focus();
  };
  return (
    <div class="tabs">
      <div role="tablist" aria-label={label} onKeyDown={move}>
        {tabs.map((tab) => (
          <button
            key={tab.id}
            id={`${prefix}-${tab.id}`}
            type="button"
            role="tab"
            aria-selected={tab === now}
            aria-controls={`${prefix}-panel`}
            tabIndex={tab === now ? 0 : -1}
            onClick={() => onChoose(tab.id)}
          >
            {tab.label}
          </button>
        ))}
      </div>
      <div
        id={`${prefix}-panel`}
        role="tabpanel"
        aria-labelledby={`${prefix}-${now.id}`}
        class={now.fills ? "panel fills" : "panel"}
        tabIndex={now.fills ? -1 : 0}
      >
        <h2 class="unseen">{now.label}</h2>
        {now.content()}
      </div>
    </div>
  );
}
