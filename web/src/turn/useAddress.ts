// Keeps the place of the reader in the address, and goes where the address says: by a link, back and forward.
import { useSignalEffect } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { pushQuery, replaceQuery, route } from "../router.ts";
import { formatPlace, parsePlace } from "./address.ts";
import type { TurnModel } from "./model.ts";
import { samePlace } from "./order.ts";

export function useAddress(model: TurnModel): void {
  const wanted = route.value.query.at ?? "";
  const written = useRef("");
  // The address changed: a link, back or forward. A live turn may not have come so far yet.
  const count = model.trace.value.frames.length;
  useEffect(() => {
    if (wanted === written.current) return;
    const place = parsePlace(wanted);
    if (place && place.index >= model.order.value.counts[place.column]) return;
    written.current = wanted;
    if (!samePlace(place, model.place.value)) model.go(place);
  }, [wanted, count]);
  // The place changed: a jump is a step in the history, a step through the list is none.
  useSignalEffect(() => {
    const [place, playing] = [model.place.value, model.playing.value];
    const text = formatPlace(place);
    const now = route.peek().query.at ?? "";
    if (playing || text === now) return;
    if (place === null && now !== written.current) return; // the address is still to be followed
    written.current = text;
    const query = { ...route.peek().query, at: text };
    if (model.jumped) pushQuery(query);
    else replaceQuery(query);
  });
}
