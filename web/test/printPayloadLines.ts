// Prints the line of each payload: reads lists of payloads as JSON from a file, writes lists of lines. For the Python
// tests, which have streams of every protocol.
import { readFileSync } from "node:fs";
import { payloadLine } from "../src/turn/payloadLine.ts";

const lists = JSON.parse(readFileSync(process.argv[2] ?? "", "utf8")) as { name: string; data: string }[][];
process.stdout.write(JSON.stringify(lists.map((payloads) => payloads.map((_, index) => payloadLine(payloads, index)))));
