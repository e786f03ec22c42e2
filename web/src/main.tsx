// Where the page begins: the key and the theme first, then the shell, or the one turn of a page saved as a file.
import "./theme.css";
import { render } from "preact";
import { startAbout } from "./api/about.ts";
import { takeKeyFromAddress } from "./api/key.ts";
import { startDropping } from "./file/dropping.ts";
import { startAlone } from "./file/opening.ts";
import { followAddress } from "./router.ts";
import { Shell } from "./shell/Shell.tsx";
import { startTheme } from "./theme.ts";
import { readSavedTraces, SavedPage } from "./turn/SavedPage.tsx";
import { startKeys } from "./ui/keys.ts";
import { dropOldValues } from "./ui/tabStore.ts";

startTheme();
startKeys();
const place = document.getElementById("page");
const saved = await readSavedTraces();
if (place && saved) {
  followAddress();
  render(<SavedPage traces={saved} />, place);
} else if (place) {
  takeKeyFromAddress();
  addEventListener("hashchange", takeKeyFromAddress); // the link was opened in a tab that has the page already
  followAddress();
  startAbout();
  startDropping();
  startAlone();
  void dropOldValues();
  render(<Shell />, place);
}
