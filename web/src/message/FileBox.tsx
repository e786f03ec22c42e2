// A file of the answer: a picture shown, a sound played, anything else to be saved. Nothing is fetched from elsewhere.

import { useEffect, useMemo, useState } from "preact/hooks";
import { formatMany } from "../ui/format.ts";
import { memo } from "../ui/memo.ts";
import { linkTarget, mediaAddress, pictureData } from "./addresses.ts";

interface Props {
  media: string;
  url: string;
  data: string;
  open: boolean;
  cut: boolean;
}

export const FileBox = memo(function FileBox({ media, url, data, open, cut }: Props) {
  const whole = !open && !cut;
  const shown = useMemo(
    () => (whole || data.length < 100_000 ? mediaAddress(media, data) : null),
    [whole, media, data],
  );
  const own = pictureData(url);
  const bytes = Math.floor((data.length * 3) / 4);
  return (
    <figure class="file kind-file">
      {own && <img src={own} alt={`Made by the model, ${media}`} />}
      {shown?.kind === "image" && !cut && <img src={shown.src} alt={`Made by the model, ${media}`} />}
      {/* biome-ignore lint/a11y/useMediaCaption: a model's sound comes without captions; its transcript is text beside it */}
      {shown?.kind === "audio" && whole && <audio controls src={shown.src} />}
      {/* biome-ignore lint/a11y/useMediaCaption: as above */}
      {shown?.kind === "video" && whole && <video controls src={shown.src} />}
      <figcaption>
        <span class="mono">{media || "file"}</span>
        {data !== "" && <span>{`${formatMany(bytes, "byte")}${open ? " so far" : ""}`}</span>}
        {cut && <span>too long to be shown here</span>}
        {url !== "" && !own && <Elsewhere url={url} />}
        {whole && data !== "" && <Save media={media} data={data} />}
      </figcaption>
    </figure>
  );
});

function Elsewhere({ url }: { url: string }) {
  const target = linkTarget(url);
  if (!target) return <span class="mono file-address">{url.slice(0, 300)}</span>;
  return (
    <a class="file-address" href={target.href} target="_blank" rel="noopener noreferrer" title={target.href}>
      {`Open at ${target.shown}`}
    </a>
  );
}

/** Saved as bytes without a type: opened as a page it could run what a model wrote. */
function Save({ media, data }: { media: string; data: string }) {
  const [address, setAddress] = useState("");
  useEffect(() => {
    const made = objectAddress(data);
    setAddress(made);
    return () => URL.revokeObjectURL(made);
  }, [data]);
  if (!address) return null;
  const ending = /^\w+\/([\w-]{1,12})/.exec(media)?.[1] ?? "bin";
  return (
    <a href={address} download={`file.${ending}`}>
      Save
    </a>
  );
}

function objectAddress(data: string): string {
  try {
    const plain = atob(data.replace(/\s/g, "").replace(/-/g, "+").replace(/_/g, "/"));
    const bytes = Uint8Array.from(plain, (letter) => letter.charCodeAt(0));
    return URL.createObjectURL(new Blob([bytes], { type: "application/octet-stream" }));
  } catch {
    return "";
  }
}
