// What in a request can only be guessed before the provider counts it, and what helps. Pure.

interface Words {
  /** As in "3 of 40 requests …". */
  have: string;
  why: string;
  /** What helps. */
  help: string;
}

const WORDS: Record<string, Words> = {
  "provider-tools": {
    have: "use tools that the provider runs",
    why: "What such a tool reads is counted by the provider and not shown, so these requests teach no factor.",
    help: "Expect more tokens than estimated whenever such a tool runs. For exact counts, offer a tool that your program runs.",
  },
  "image-urls": {
    have: "give images by URL",
    why: "The size of such an image is not known. It is guessed at 1800 × 1200, unless the URL names a size.",
    help: "Send the image's data: the size is then read from its header.",
  },
  "file-urls": {
    have: "name files by URL or id",
    why: "What these files hold is not in the request. They are guessed at a few pages each.",
    help: "Send the file's data: the pages of a PDF are then counted.",
  },
  audio: {
    have: "hold audio",
    why: "Its length is guessed from its size in bytes.",
    help: "Expect wide bounds. The provider's count of the first turn is used for the turns that follow it.",
  },
  video: {
    have: "hold video",
    why: "Its length is not known before the provider reads it.",
    help: "Expect wide bounds. The provider's count of the first turn is used for the turns that follow it.",
  },
  "hidden-reasoning": {
    have: "send back reasoning that only the provider can read",
    why: "Its length is guessed.",
    help: "Nothing has to be done: the provider's count of one turn is used for the next.",
  },
};

/** The words for a kind; null for one that a newer gateway knows. */
export function describeUncertain(kind: string): Words | null {
  return WORDS[kind] ?? null;
}
