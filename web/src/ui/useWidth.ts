// The width of an element in pixels, as it changes.
import { useLayoutEffect, useState } from "preact/hooks";

/** `first`: until it is measured. */
export function useWidth(ref: { current: HTMLElement | null }, first = 0): number {
  const [width, setWidth] = useState(first);
  useLayoutEffect(() => {
    const element = ref.current;
    if (!element) return;
    const measure = () => setWidth(element.clientWidth);
    measure();
    const watch = new ResizeObserver(measure);
    watch.observe(element);
    return () => watch.disconnect();
  }, [ref]);
  return width;
}
