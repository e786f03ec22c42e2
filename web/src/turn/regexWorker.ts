// The worker of regexSearch.ts.
import { answerRegex, type RegexRequest } from "./regexMatch.ts";

addEventListener("message", ({ data }: MessageEvent<RegexRequest>) => {
  postMessage("begun"); // the time limit counts from here
  postMessage(answerRegex(data));
});
