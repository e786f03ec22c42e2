// The suites by name.

import { extras } from "./extras.ts";
import { keys } from "./keys.ts";
import { limits } from "./limits.ts";
import { nothing } from "./nothing.ts";
import { own } from "./own.ts";
import { parts } from "./parts.ts";
import { privacy } from "./privacy.ts";
import { sizes } from "./sizes.ts";
import { first, second } from "./state.ts";
import { untrusted, untrustedFile } from "./untrusted.ts";

export type Suite = Readonly<Record<string, () => Promise<void>>>;

export const suites: Readonly<Record<string, Suite>> = {
  parts,
  first,
  second,
  limits,
  sizes,
  own,
  keys,
  extras,
  nothing,
  privacy,
  untrusted,
  untrustedFile,
};
