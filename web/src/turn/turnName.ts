// What a turn is called: the model that was asked for. Pure.
import type { Trace } from "../api/types.ts";

export function formatTurnName({ row, title }: Pick<Trace, "row" | "title">): string {
  return row?.asked || row?.model || title || "Turn";
}
