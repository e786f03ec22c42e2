// Markdown on the screen: the first pages at once, more when asked for, all of it page by page between frames.
import { useEffect, useMemo, useState } from "preact/hooks";
import { memo } from "../ui/memo.ts";
import { CodeBlock } from "./CodeBlock.tsx";
import { drawMarkdown } from "./draw.ts";
import { size } from "./outcomes.ts";
import { liftPictures, splitPages } from "./pages.ts";

const FIRST_PAGES = 4;
const MORE = 8;
const EACH_FRAME = 8;

interface Props {
  text: string;
  /** Whether the text has the marks of citing.ts. */
  marked?: boolean;
  /** Whether more of it is to come. */
  open: boolean;
  onCite?: (number: number) => void;
}

export const Markdown = memo(function Markdown({ text, marked = false, open, onCite }: Props) {
  const [most, setMost] = useState(FIRST_PAGES);
  const [all, setAll] = useState(false);
  const { text: short, pictures } = useMemo(() => liftPictures(text), [text]);
  const { pages, used } = useMemo(() => splitPages(short, most), [short, most]);
  const left = short.length - used;
  useEffect(() => {
    if (!all || left === 0) return;
    const frame = requestAnimationFrame(() => setMost(most + EACH_FRAME));
    return () => cancelAnimationFrame(frame);
  }, [all, left, most]);
  return (
    <div class={open && left === 0 ? "md open" : "md"}>
      {pages.map((page, number) => (
        <Page key={number} text={page} marked={marked} pictures={pictures} onCite={onCite} />
      ))}
      {left > 0 && !all && (
        <p class="md-more">
          {`The first ${size(used)} of ${size(short.length)}. `}
          <button type="button" onClick={() => setMost(most + MORE)}>
            Show more
          </button>{" "}
          <button type="button" onClick={() => setAll(true)}>
            Show all
          </button>
        </p>
      )}
    </div>
  );
});

interface PageProps {
  text: string;
  marked: boolean;
  pictures: readonly string[];
  onCite: ((number: number) => void) | undefined;
}

const NONE: readonly string[] = [];

function Page({ pictures, ...rest }: PageProps) {
  return <DrawnPage {...rest} pictures={pictures.length > 0 ? pictures : NONE} />;
}

const DrawnPage = memo(function DrawnPage({ text, marked, pictures, onCite }: PageProps) {
  const drawn = drawMarkdown(text, {
    marked,
    pictures,
    code: (code, language) => <CodeBlock text={code} language={language} />,
    cite: (number) => (
      <sup>
        <button
          type="button"
          class="cite"
          data-cite={number}
          aria-label={`Source ${number}`}
          onClick={() => onCite?.(number)}
        >
          {number}
        </button>
      </sup>
    ),
  });
  return <div class="md-page">{drawn}</div>;
});
