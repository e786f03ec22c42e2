// Losses and repairs as marks of the trees, and the body of a try. Pure.
import type { TreeMark, TreeMarks } from "./JsonTree.tsx";
import type { Loss, RequestView } from "./types.ts";

export function marksOf(losses: readonly Loss[], attempt: number): { client: TreeMarks; upstream: TreeMarks } {
  const own = losses.filter((loss) => loss.attempt === attempt);
  return { client: marksOfSide(own, "client"), upstream: marksOfSide(own, "upstream") };
}

function marksOfSide(losses: readonly Loss[], side: "client" | "upstream"): TreeMarks {
  const marks = new Map<string, TreeMark[]>();
  for (const loss of losses) {
    // What stands in the upstream request was not lost: it stands for something that was.
    const kind = side === "upstream" && loss.kind === "lost" ? "changed" : loss.kind;
    for (const place of loss[side]) marks.set(place, [...(marks.get(place) ?? []), { kind, text: loss.message }]);
  }
  return marks;
}

/** The body of a try; a body that is the same as an earlier one's is told only once. */
export function bodyOf({ attempts }: RequestView, number: number): string {
  const found = attempts[number];
  if (!found) return "";
  return attempts[found.same_body ?? number]?.attempt.body ?? "";
}
