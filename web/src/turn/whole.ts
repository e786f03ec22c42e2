// How the whole of a cut text is got; the page around a turn knows.
export type Whole = (column: "frames" | "outputs", index: number) => Promise<string>;
