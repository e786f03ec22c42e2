// HTML's character references in Markdown text, which a browser would read for us if we wrote HTML.

// biome-ignore format: a table
const NAMED: Record<string, string> = {
  amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0", copy: "©", reg: "®", trade: "™", hellip: "…",
  mdash: "—", ndash: "–", lsquo: "‘", rsquo: "’", ldquo: "“", rdquo: "”", laquo: "«", raquo: "»", bull: "•",
  middot: "·", times: "×", divide: "÷", deg: "°", plusmn: "±", ne: "≠", le: "≤", ge: "≥", larr: "←", rarr: "→",
  uarr: "↑", darr: "↓", harr: "↔", infin: "∞", micro: "µ", para: "¶", sect: "§", euro: "€", pound: "£", yen: "¥",
  cent: "¢", frac12: "½", frac14: "¼", frac34: "¾", sup2: "²", sup3: "³", alpha: "α", beta: "β", gamma: "γ",
  delta: "δ", lambda: "λ", mu: "μ", pi: "π", sigma: "σ", omega: "ω", Delta: "Δ", Sigma: "Σ", Omega: "Ω",
  auml: "ä", ouml: "ö", uuml: "ü", Auml: "Ä", Ouml: "Ö", Uuml: "Ü", szlig: "ß", eacute: "é", egrave: "è",
  agrave: "à", ccedil: "ç", ntilde: "ñ", ensp: "\u2002", emsp: "\u2003", thinsp: "\u2009", shy: "\u00ad",
};
const REFERENCE = /&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|([A-Za-z][A-Za-z0-9]{1,30}));/g;
const LAST = 0x10ffff;

/** Text as a browser would show it; everything else stays as it is. */
export function decodeReferences(text: string): string {
  if (!text.includes("&")) return text;
  return text.replace(REFERENCE, (whole, decimal?: string, hex?: string, name?: string) => {
    if (name !== undefined) return Object.hasOwn(NAMED, name) ? (NAMED[name] ?? whole) : whole;
    return letter(decimal ? Number.parseInt(decimal, 10) : Number.parseInt(hex ?? "", 16));
  });
}

function letter(code: number): string {
  const lawful = code > 0 && code <= LAST && !(code >= 0xd800 && code <= 0xdfff);
  return lawful ? String.fromCodePoint(code) : "\ufffd";
}
