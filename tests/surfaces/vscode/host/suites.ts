// The suites by name.

import { budget } from "./budget.ts";
import { bundled } from "./bundled.ts";
import { commits } from "./commits.ts";
import { extras } from "./extras.ts";
import { keys } from "./keys.ts";
import { limits } from "./limits.ts";
import { nothing } from "./nothing.ts";
import { own } from "./own.ts";
import { parts } from "./parts.ts";
import { privacy } from "./privacy.ts";
import { providers } from "./providers.ts";
import { sizes } from "./sizes.ts";
import { first, second } from "./state.ts";
import { typing } from "./typing.ts";
import { untrusted, untrustedFile } from "./untrusted.ts";
import { views } from "./views.ts";

export type Suite = Readonly<Record<string, () => Promise<void>>>;

export const suites: Readonly<Record<string, Suite>> = {
  budget,
  parts,
  first,
  second,
  limits,
  sizes,
  own,
  bundled,
  keys,
  extras,
  nothing,
  privacy,
  providers,
  typing,
  commits,
  views,
  untrusted,
  untrustedFile,
};
