// Keeps the end of a scrolling element in sight as it grows, until the reader scrolls up from it.
import type { RefObject } from "preact";
import { useEffect, useRef } from "preact/hooks";

/** `grown`: anything that changes when there is more. `active`: only then is the end kept in sight. */
export function useStickToEnd(ref: RefObject<HTMLElement | null>, grown: unknown, active: boolean): () => void {
  const sticks = useRef(true);
  const last = useRef(0);
  useEffect(() => {
    const element = ref.current;
    if (element && active && sticks.current) element.scrollTop = element.scrollHeight;
  }, [grown, active]);
  return () => {
    const element = ref.current;
    if (!element) return;
    const { scrollTop, clientHeight, scrollHeight } = element;
    if (scrollTop + clientHeight >= scrollHeight - 4) sticks.current = true;
    else if (scrollTop < last.current) sticks.current = false;
    last.current = scrollTop;
  };
}
