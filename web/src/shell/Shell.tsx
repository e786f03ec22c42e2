// The frame around every view: navigation, theme, help, and the question for a key.
import "./shell.css";
import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { SendView } from "../act/SendView.tsx";
import { AdminView } from "../admin/AdminView.tsx";
import { about } from "../api/about.ts";
import { keyWanted, sessionWanted } from "../api/key.ts";
import { CompareView } from "../compare/CompareView.tsx";
import { DropOverlay } from "../file/DropOverlay.tsx";
import { FileView } from "../file/FileView.tsx";
import { formatRoute, go, type Route, route, type View } from "../router.ts";
import { RunsView } from "../runs/RunsView.tsx";
import { startLive } from "../streams/live.ts";
import { StreamsView } from "../streams/StreamsView.tsx";
import { TokensView } from "../tokens/TokensView.tsx";
import { TryView } from "../try/TryView.tsx";
import { TurnPage } from "../turn/TurnPage.tsx";
import { EVERYWHERE, useKeys } from "../ui/keys.ts";
import { formatTitle } from "../ui/title.ts";
import { UsageView } from "../usage/UsageView.tsx";
import { Help, HelpButton, helpOpen, toggleHelp } from "./Help.tsx";
import { KeyQuestion } from "./KeyQuestion.tsx";
import { labelOf, listNavigation } from "./navigation.ts";
import { SessionQuestion } from "./SessionQuestion.tsx";
import { ThemeButton } from "./ThemeButton.tsx";
import { UnknownView } from "./UnknownView.tsx";

export function Shell() {
  const here = placeNow();
  useKeys(EVERYWHERE, [
    { keys: ["?"], label: "Show or hide these keys", run: toggleHelp },
    ...listNavigation().map(({ view, label }, index) => ({ keys: [String(index + 1)], label, run: () => go(view) })),
  ]);
  useEffect(startLive, []);
  const title = formatTitle(labelOf(here));
  useEffect(() => {
    document.title = title;
  }, [title]);
  return (
    <div class="shell">
      <button type="button" class="skip" onClick={skip}>
        Skip to the view
      </button>
      <Bar view={here.view} />
      <main id="main" class="view" tabIndex={-1}>
        <Question view={here.view}>
          <Content here={here} />
        </Question>
      </main>
      {helpOpen.value && <Help />}
      <DropOverlay />
    </div>
  );
}

/** What the gateway asks for first, if anything. */
function Question({ view, children }: { view: View; children: ComponentChildren }) {
  if (sessionWanted.value && view !== "file") return <SessionQuestion />;
  return keyWanted.value && view !== "keys" ? <KeyQuestion /> : children;
}

/** Without a gateway there are only files. */
function placeNow(): Route {
  return about.value?.live === false ? { ...route.value, view: "file" } : route.value;
}

function skip(): void {
  document.getElementById("main")?.focus();
}

function Content({ here }: { here: Route }) {
  switch (here.view) {
    case "turn":
      return <TurnPage key={here.id} id={here.id} query={here.query} />;
    case "runs":
      return <RunsView />;
    case "file":
      return <FileView />;
    case "usage":
      return <UsageView />;
    case "tokens":
      return <TokensView />;
    case "try":
      return <TryView />;
    case "send":
      return <SendView key={here.id} id={here.id} />;
    case "compare":
      return <CompareView key={here.id} id={here.id} />;
    case "keys":
      return <AdminView />;
    case "unknown":
      return <UnknownView name={here.id} />;
    default:
      return <StreamsView />;
  }
}

function Bar({ view }: { view: View }) {
  const current = view === "turn" || view === "send" || view === "compare" ? "streams" : view;
  return (
    <header class="bar">
      <a class="brand" href={formatRoute("streams")} aria-label="penstock: streams">
        <Mark />
        <span class="brand-name">penstock</span>
      </a>
      <nav aria-label="Views">
        {listNavigation().map((item) => (
          <a key={item.view} href={formatRoute(item.view)} aria-current={item.view === current ? "page" : undefined}>
            {item.label}
          </a>
        ))}
      </nav>
      <ThemeButton />
      <HelpButton />
    </header>
  );
}

/** A pipe that divides: the water, and what it drives. */
function Mark() {
  return (
    <svg class="brand-mark" viewBox="0 0 32 32" aria-hidden="true">
      <path class="brand-main" d="M4 8h13a7 7 0 0 1 7 7v12" />
      <path class="brand-side" d="M4 17h7a4 4 0 0 1 4 4v6" />
    </svg>
  );
}
