// What the request lost on its way to the provider, and what was repaired in it: in words, with its places.
import { formatMany } from "../ui/format.ts";
import type { Loss } from "./types.ts";

const WORDS: Record<Loss["kind"], string> = {
  lost: "The provider cannot take this, so it was changed or left out.",
  carried: "The provider cannot take this. The gateway does it itself.",
  repaired: "The provider would refuse this, so it was repaired.",
};

interface Props {
  losses: Loss[];
  /** Shows a place in one of the bodies; absent: places are only named. */
  onShow?: (side: "client" | "upstream", place: string, attempt: number) => void;
}

export function Losses({ losses, onShow }: Props) {
  return (
    <ul class="losses">
      {losses.map((loss, index) => (
        <li key={index} class={`loss mark-${loss.kind}`}>
          <p>
            <b>{loss.kind}</b> <code>{loss.code}</code> {loss.message}
            {loss.count > 1 && ` (${formatMany(loss.count, "time")})`}
          </p>
          <p class="soft">
            {WORDS[loss.kind]}
            {(["client", "upstream"] as const).map((side) =>
              loss[side].map((place) => (
                <Place
                  key={`${side} ${place}`}
                  {...{ side, place }}
                  onShow={onShow && (() => onShow(side, place, loss.attempt))}
                />
              )),
            )}
          </p>
        </li>
      ))}
    </ul>
  );
}

function Place({
  side,
  place,
  onShow,
}: {
  side: "client" | "upstream";
  place: string;
  onShow: (() => void) | undefined;
}) {
  const words = side === "client" ? "in the client's request" : "in the upstream request";
  if (!onShow) return <span class="loss-place">{`${place} ${words}`}</span>;
  return (
    <button type="button" class="link loss-place" onClick={onShow}>
      {`${place} ${words}`}
    </button>
  );
}
