// The set-up check as a page: each finding with its fix, and each fix with its buttons.

import { type Finding, MARKS, verdict } from "./check.ts";
import { commandLink, type Html, html, page } from "./html.ts";

export function checkPage(
  findings: readonly Finding[],
  about: Readonly<Record<string, string>>,
  nonce: string,
): string {
  const { good, text } = verdict(findings);
  const facts = Object.entries(about).map(([name, value]) => html`<tr><th>${name}</th><td>${value}</td></tr>`);
  const body = html`<h1>Penstock: set-up</h1>
    <p class="${good ? "good" : "bad"}">${text}</p>
    <ul>${findings.map(drawn)}</ul>
    <p>${commandLink("Check Again", "penstock.checkSetup")} ${commandLink("Copy Report", "penstock.copyReport")}</p>
    <h2>Versions</h2><table>${facts}</table>`;
  return page("Penstock: set-up", nonce, STYLE, body);
}

const CLASSES = { true: "good", false: "bad", warning: "hint" } as const;
const SPOKEN = { true: "Works", false: "Failed", warning: "Could be better" } as const;

function drawn(row: Finding): Html {
  const state = `${row.ok}` as const;
  const mark = html`<span class="mark ${CLASSES[state]}" role="img" aria-label="${SPOKEN[state]}">${MARKS[state]}</span>`;
  return html`<li>${mark}<div>${row.what}${row.ok === true ? "" : fix(row)}</div></li>`;
}

function fix({ fix: text, actions = [], link }: Exclude<Finding, { ok: true }>): Html {
  const buttons = actions.map(({ label, command, args = [] }) => commandLink(label, command, ...args));
  const page = link ? [html`<a href="${link.url}">${link.label}</a>`] : [];
  return html`<div class="quiet">${text}</div><div class="fixes">${[...buttons, ...page]}</div>`;
}

const STYLE = `
body { max-width: 60em; padding: 0 20px 20px; }
ul { list-style: none; padding: 0; }
li { display: flex; gap: 10px; padding: 6px 0; border-top: 1px solid var(--vscode-widget-border, transparent); }
.mark { flex: none; width: 1.2em; text-align: center; font-weight: 700; }
.good { color: var(--vscode-testing-iconPassed, var(--vscode-charts-green)); }
.bad { color: var(--vscode-errorForeground); }
.hint { color: var(--vscode-charts-orange); }
.fixes { display: flex; flex-wrap: wrap; gap: 6px 10px; align-items: center; margin-top: 4px; }
.fixes:empty { display: none; }
th { width: 8em; } td, th { padding: 2px 0; vertical-align: top; }
`;
