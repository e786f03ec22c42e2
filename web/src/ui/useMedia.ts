// Whether a media query holds, now and whenever that changes.
import { useEffect, useState } from "preact/hooks";

export const PHONE = "(max-width: 759px)";

export function useMedia(query: string): boolean {
  const [holds, setHolds] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const list = matchMedia(query);
    const tell = () => setHolds(list.matches);
    tell();
    list.addEventListener("change", tell);
    return () => list.removeEventListener("change", tell);
  }, [query]);
  return holds;
}
