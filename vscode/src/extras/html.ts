// HTML for webviews: text is escaped unless it is marked as HTML. Pages have no scripts, and load nothing.

export class Html {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

type Piece = Html | string | number | readonly Piece[];

const ESCAPES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

export const escapeHtml = (text: string): string => text.replace(/[&<>"']/g, (one) => ESCAPES[one] ?? one);

const textOf = (piece: Piece): string => {
  if (piece instanceof Html) return piece.text;
  return typeof piece === "object" ? piece.map(textOf).join("") : escapeHtml(String(piece));
};

/** A template: `html\`<b>${text}</b>\`` escapes `text`. */
export function html(strings: TemplateStringsArray, ...pieces: readonly Piece[]): Html {
  return new Html(strings.reduce((all, one, place) => all + textOf(pieces[place - 1] ?? "") + one));
}

/** A link that runs a command. */
export function commandLink(label: string, command: string, ...args: readonly unknown[]): Html {
  const query = args.length ? `?${encodeURIComponent(JSON.stringify(args))}` : "";
  return html`<a class="button" role="button" href="command:${command}${query}">${label}</a>`;
}

/** A whole page: only the style below, by its nonce; no script, no request. */
export function page(title: string, nonce: string, style: string, body: Html): string {
  const policy = `default-src 'none'; style-src 'nonce-${nonce}'`;
  return html`<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title><style nonce="${nonce}">${new Html(BASE + style)}</style></head>
<body>${body}</body></html>`.text;
}

const BASE = `
body { color: var(--vscode-foreground); font-family: var(--vscode-font-family); font-size: var(--vscode-font-size);
  line-height: 1.5; overflow-wrap: anywhere; }
a { color: var(--vscode-textLink-foreground); }
a.button { display: inline-block; padding: 2px 10px; border-radius: 2px; text-decoration: none; white-space: nowrap;
  color: var(--vscode-button-secondaryForeground); background: var(--vscode-button-secondaryBackground); }
a.button:hover { background: var(--vscode-button-secondaryHoverBackground); }
a:focus-visible { outline: 1px solid var(--vscode-focusBorder); outline-offset: 2px; }
h1 { font-size: 1.4em; font-weight: 600; } h2 { font-size: 1em; font-weight: 600; margin: 1.4em 0 .4em; }
table { border-collapse: collapse; width: 100%; }
th { font-weight: 600; text-align: left; color: var(--vscode-descriptionForeground); }
.quiet { color: var(--vscode-descriptionForeground); }
`;
