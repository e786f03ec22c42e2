// A plot that fits its box, wears the theme's colours, and says what lies under the pointer. Leans on uPlot; the figures
// themselves are also in a table near every plot, for those who do not see it.
import "uplot/dist/uPlot.min.css";
import "./plot.css";
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { seenTheme } from "../../theme.ts";
import { type Look, readLook } from "./look.ts";

export type Build = (look: Look) => Omit<uPlot.Options, "width" | "height">;

interface Props {
  build: Build;
  data: uPlot.AlignedData;
  /** What it shows, in a sentence. */
  label: string;
  height?: number;
  /** What is said of the place under the pointer. */
  tip?: (index: number) => ComponentChildren;
}

interface Spot {
  index: number;
  left: number;
  top: number;
}

const HEIGHT = 180;

export function Plot({ build, data, label, height = HEIGHT, tip }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const [spot, setSpot] = useState<Spot | null>(null);
  const theme = seenTheme.value;
  useEffect(() => {
    const place = box.current;
    if (!place) return;
    const options = { ...build(readLook()), width: Math.max(120, place.clientWidth), height };
    const plot = new uPlot(withPointer(options, setSpot), data, place);
    const watch = new ResizeObserver(() => plot.setSize({ width: Math.max(120, place.clientWidth), height }));
    watch.observe(place);
    return () => {
      watch.disconnect();
      plot.destroy();
      setSpot(null);
    };
  }, [build, data, height, theme]); // another theme is other colours
  return (
    <div class="plot">
      <div ref={box} role="img" aria-label={label} />
      {spot && tip && <Tip spot={spot}>{tip(spot.index)}</Tip>}
    </div>
  );
}

function Tip({ spot, children }: { spot: Spot; children: ComponentChildren }) {
  const place = useRef<HTMLDivElement>(null);
  const width = place.current?.offsetWidth ?? 160;
  const room = (place.current?.parentElement?.clientWidth ?? 0) - width;
  const left = spot.left + 14 > room ? spot.left - width - 10 : spot.left + 14;
  return (
    <div
      ref={place}
      class="plot-tip"
      aria-hidden="true"
      style={{ left: `${Math.max(0, left)}px`, top: `${spot.top}px` }}
    >
      {children}
    </div>
  );
}

function withPointer(options: uPlot.Options, tell: (spot: Spot | null) => void): uPlot.Options {
  const moved = (plot: uPlot) => {
    const { idx, left = -1, top = -1 } = plot.cursor;
    const over = idx !== null && idx !== undefined && left >= 0;
    tell(over ? { index: idx, left: left + plot.over.offsetLeft, top: top + plot.over.offsetTop } : null);
  };
  return { ...options, hooks: { ...options.hooks, setCursor: [moved] } };
}
