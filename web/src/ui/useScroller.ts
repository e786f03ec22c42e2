// The seen part of a scrolling element, for lists that draw only that. Renders anew once per row, not per pixel.
import type { RefObject } from "preact";
import { useCallback, useLayoutEffect, useRef, useState } from "preact/hooks";
import { type Stretch, seenRows, topToShow } from "./virtual.ts";

export interface Scroller<E extends HTMLElement> {
  ref: RefObject<E | null>;
  /** The first row that is seen; the stretch that is drawn begins before it. */
  top: number;
  seen: Stretch;
  onScroll: () => void;
  show: (first: number, last?: number) => void;
  /** Scrolls so that a row is in the middle. */
  center: (index: number) => void;
  /** Whether the end is in sight. */
  atEnd: () => boolean;
}

/** `head`: pixels at the top that a head covers. */
export function useScroller<E extends HTMLElement>(count: number, row: number, head = 0): Scroller<E> {
  const ref = useRef<E>(null);
  const [view, setView] = useState({ top: 0, height: 800 });
  const measure = useCallback(() => {
    const element = ref.current;
    if (!element) return;
    const top = Math.floor(element.scrollTop / row) * row;
    const height = element.clientHeight - head;
    setView((old) => (old.top === top && old.height === height ? old : { top, height }));
  }, [row, head]);
  useLayoutEffect(() => {
    const element = ref.current;
    if (!element) return;
    measure();
    const watch = new ResizeObserver(measure);
    watch.observe(element);
    return () => watch.disconnect();
  }, [measure]);
  const show = useCallback(
    (first: number, last = first) => {
      const element = ref.current;
      if (!element) return;
      const height = element.clientHeight - head;
      const fits = (last - first + 3) * row <= height;
      element.scrollTop = topToShow(element.scrollTop, height, row, first, fits ? last : first);
      measure();
    },
    [row, head, measure],
  );
  const center = useCallback(
    (index: number) => {
      const element = ref.current;
      if (!element) return;
      element.scrollTop = Math.max(0, (index + 0.5) * row - (element.clientHeight - head) / 2);
      measure();
    },
    [row, head, measure],
  );
  const atEnd = useCallback(() => {
    const element = ref.current;
    return !element || element.scrollTop + element.clientHeight >= element.scrollHeight - row;
  }, [row]);
  const seen = seenRows(view.top, view.height, row, count);
  return { ref, top: Math.floor(view.top / row), seen, onScroll: measure, show, center, atEnd };
}
