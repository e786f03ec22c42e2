// A page with one chat, whose id is in the page's address. `./chat.jsx` is the example of docs/resume.md.
import { createRoot } from "react-dom/client";
import { Chat } from "./chat.jsx";

const id = new URLSearchParams(location.search).get("chat");
createRoot(document.getElementById("root")).render(<Chat id={id} />);
