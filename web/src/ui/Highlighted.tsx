// A text with what was searched for marked in it.
import { type Highlight, splitHits } from "./highlight.ts";

interface Props {
  text: string;
  highlight?: Highlight | undefined;
}

export function Highlighted({ text, highlight }: Props) {
  if (!highlight) return <>{text}</>;
  return (
    <>
      {splitHits(text, highlight).map((piece, index) =>
        piece.hit ? <mark key={index}>{piece.text}</mark> : <span key={index}>{piece.text}</span>,
      )}
    </>
  );
}
