// Which addresses out of a model's mouth may become a link or a picture. Everything else stays text.

export interface Target {
  href: string;
  /** What is shown beside the link's own words, so that nobody is led elsewhere than they read. */
  shown: string;
}

const LINKS = new Set(["http:", "https:", "mailto:"]);
const PICTURE = /^data:image\/(?:png|jpe?g|gif|webp|avif|bmp|svg\+xml)(?:;[\w-]+(?:=[\w-]+)?)*,/i;
// Controls, spaces and marks that change how a line is read: an address has no use for them, a trick has.
const TRICKS = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\s]/u;
const LONGEST = 4096;

/** An address that may be followed: http, https or mail, absolute, written plainly. */
export function linkTarget(address: string): Target | null {
  const trimmed = address.trim();
  if (trimmed.length > LONGEST || TRICKS.test(trimmed) || !/^(?:https?:\/\/|mailto:)/i.test(trimmed)) return null;
  let url: URL;
  try {
    url = new URL(trimmed);
  } catch {
    return null;
  }
  if (!LINKS.has(url.protocol)) return null;
  return { href: url.href, shown: url.protocol === "mailto:" ? url.pathname : url.host };
}

/** A picture that carries its own bytes; one that lies elsewhere is never fetched. In an `img` no script of an SVG runs. */
export function pictureData(address: string): string | null {
  return PICTURE.test(address) ? address : null;
}

/** The address of base64 data, if the browser may show it as a picture or play it; else null. */
export function mediaAddress(media: string, data: string): { kind: "image" | "audio" | "video"; src: string } | null {
  const plain = media.split(";", 1)[0]?.trim().toLowerCase() ?? "";
  if (!/^[A-Za-z0-9+/_=\s-]+$/.test(data) || !/^\w+\/[\w.+-]+$/.test(plain)) return null;
  const src = `data:${plain};base64,${data.replace(/\s/g, "").replace(/-/g, "+").replace(/_/g, "/")}`;
  if (pictureData(src) !== null) return { kind: "image", src };
  const sound = /^(audio|video)\//.exec(plain);
  return sound ? { kind: sound[1] as "audio" | "video", src } : null;
}

/** Whether words already say where a link leads. */
export function saysItself(words: string, target: Target): boolean {
  const plain = (text: string) =>
    text
      .trim()
      .replace(/^(?:https?:\/\/|mailto:)/i, "")
      .replace(/\/$/, "");
  return plain(words) === plain(target.href);
}
