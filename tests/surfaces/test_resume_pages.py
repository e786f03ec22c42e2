"""Pages in a real browser reload in the middle of an answer and continue on another replica.

The page is the example of docs/resume.md with `useChat` of AI SDK 5, 6 and 7 and its own transport. nginx sends what the
page posts to one replica and what it gets to the other.
"""

from __future__ import annotations

import re
import subprocess
import uuid
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from penstock.testing import Dialect, Reply
from tests.oracles.node.oracle import HERE, UI_VERSIONS, require_packages
from tests.support import process
from tests.support.browser import chromium
from tests.support.held_upstream import HeldUpstream, held_upstream
from tests.support.openresponses import until
from tests.support.paths import PROJECT
from tests.support.servers import NginxServer, RedisServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page, Response

ROOT = PROJECT
KEY = "planted-page-key"
STEP = 60_000  # milliseconds for a step in the browser
FIRST, SECOND = "The fjord is cold today, and ", "the wind turns to the north."
CALL = ("get_weather", {"city": "Oslo", "unit": "celsius"})
CONFIG = """
[aliases]
fast = "up/long"
[providers.up]
like = "openai-compatible"
base_url = "{up}"
key = "sk-up-000000"
models = ["long"]
fields = {{ has = ["chat"] }}
[serve]
drain = 1
[keys.page]
env = "PAGE"
[resume]
enabled = true
background_on_disconnect = true
[stores]
redis = "{redis}"
"""
# What is posted goes to the first replica, the rest to the second. The pages are files; nginx adds their gateway key.
ROUTES = """
if ($request_method != POST) {{ proxy_pass http://127.0.0.1:{second}; }}
add_header x-replica $upstream_addr always;
proxy_set_header authorization "Bearer {key}";
location /pages/ {{ root {folder}; types {{ text/html html; text/javascript js; }} }}
"""


def chunks(reply: Reply) -> list[bytes]:
    """The frames of an answer, with an id of its own: a page has one message for each id."""
    own = b'"id":"%b"' % uuid.uuid4().hex.encode()
    frames = reply.encode_for(Dialect("openai-chat", stream=True), "long").chunks
    return [frame.replace(b'"id":"test"', own) for frame in frames]


def held_answer() -> tuple[bytes, ...]:
    """An answer in three pieces: the middle of its text, the middle of its tool call, the end."""
    frames = chunks(Reply.calls([CALL], text=FIRST + SECOND))
    text = next(number for number, frame in enumerate(frames) if b'"the"' in frame or b'" the"' in frame)
    call = next(number for number, frame in enumerate(frames) if b"Osl" in frame) + 1
    return b"".join(frames[:text]), b"".join(frames[text:call]), b"".join(frames[call:])


@dataclass
class Site:
    """Two replicas, their provider, and the page before them."""

    up: HeldUpstream
    nginx: NginxServer
    replicas: tuple[process.Gateway, process.Gateway]
    redis: RedisServer

    def address(self, name: str, chat: str) -> str:
        return f"{self.nginx.url}/pages/{name}.html?chat={quote(chat, safe='')}"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    for name in ("a", "b", "pages"):
        (folder / name).mkdir()
    for version in UI_VERSIONS:
        build_page(folder / "pages", version)
    folder.chmod(0o755)
    with closing(RedisServer()) as redis, held_upstream() as up:
        redis.start()
        config = CONFIG.format(up=up.url, redis=redis.url)
        with (
            process.gateway(folder / "a", config, PAGE=KEY) as one,
            process.gateway(folder / "b", config, PAGE=KEY) as two,
        ):
            first, second = (int(server.base.rsplit(":", 1)[1]) for server in (one, two))
            more = ROUTES.format(key=KEY, second=second, folder=folder)
            with closing(NginxServer([first], more=more)) as nginx:
                nginx.start()
                yield Site(up, nginx, (one, two), redis)


def build_page(folder: Path, version: int) -> None:
    """Bundle the example of the documentation with one version of the AI SDK."""
    require_packages("pages")
    packages = HERE / "pages"
    example = re.search(r"^```jsx\n(.*?)^```", (ROOT / "docs" / "resume.md").read_text(), re.DOTALL | re.MULTILINE)
    assert example is not None
    (folder / "chat.jsx").write_text(example[1])
    (folder / "main.jsx").write_text((packages / "main.jsx").read_text())
    (folder / f"chat{version}.html").write_text(
        f'<!doctype html><link rel="icon" href="data:,"><div id="root"></div><script src="chat{version}.js"></script>'
    )
    options = ("--bundle", "--jsx=automatic", "--log-level=error", '--define:process.env.NODE_ENV="production"')
    names = (f"--alias:@ai-sdk/react=react{version}", f"--outfile={folder}/chat{version}.js")
    command = [str(packages / "node_modules/esbuild/bin/esbuild"), str(folder / "main.jsx"), *options, *names]
    subprocess.run(command, check=True, env={"NODE_PATH": str(packages / "node_modules")})


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium(STEP) as made:
        yield made


@dataclass
class Chat:
    """A page in the browser."""

    page: Page
    site: Site
    id: str

    def load(self, action: Callable[[], Any]) -> tuple[str, int, str]:
        """Load the page. Returns method, status and replica of the gateway's answer to what the page asks then."""
        with self.page.expect_response(lambda response: "/api/" in response.url) as found:
            action()
        return self.describe(found.value)

    def describe(self, response: Response) -> tuple[str, int, str]:
        port = response.headers["x-replica"].rpartition(":")[2]
        replica = next(name for name, one in zip("AB", self.site.replicas, strict=True) if one.base.endswith(port))
        return response.request.method, response.status, replica

    def send(self, text: str) -> tuple[str, int, str]:
        self.page.fill("input", text)
        return self.load(lambda: self.page.click("text=Send"))

    def reload(self) -> tuple[str, int, str]:
        return self.load(self.page.reload)

    def expect_last(self, text: str) -> None:
        """Wait until the page shows exactly this as its last message."""
        from playwright.sync_api import expect

        expect(self.page.locator("form > p:not([role])").last).to_have_text(text)

    def expect_status(self, status: str) -> None:
        from playwright.sync_api import expect

        expect(self.page.get_by_role("status")).to_have_text(status)

    def saved(self) -> list[Any]:
        return list(self.page.evaluate("id => JSON.parse(localStorage.getItem(id))", self.id))


@pytest.fixture
def open_chat(browser: Browser, site: Site) -> Iterator[Callable[[str, str], Chat]]:
    with closing(browser.new_context()) as context:
        context.set_default_timeout(STEP)

        def opened(name: str, id: str) -> Chat:
            chat = Chat(context.new_page(), site, id)
            assert chat.load(lambda: chat.page.goto(site.address(name, id))) == ("GET", 204, "B")
            return chat

        yield opened


def check_answer(message: Any) -> None:
    """The message has the whole text and the call, each once."""
    kinds = [part["type"] for part in message["parts"]]
    assert "".join(part.get("text", "") for part in message["parts"]) == FIRST + SECOND
    assert kinds.count("text") == 1
    (call,) = [part for part in message["parts"] if "toolCallId" in part]
    assert (call["state"], call["input"]) == ("input-available", CALL[1])


@pytest.mark.parametrize("version", UI_VERSIONS)
def test_a_page_is_reloaded_and_continues_on_another_replica(
    site: Site, open_chat: Callable[[str, str], Chat], version: int
) -> None:
    site.up.hold(*held_answer())
    chat = open_chat(f"chat{version}", f"Größe/{version} & 50%/stream")
    assert chat.send("How is the weather?") == ("POST", 200, "A")
    chat.expect_last(FIRST.strip())
    for piece in (FIRST, FIRST + SECOND):  # in the middle of the text, and of the tool call
        assert chat.reload() == ("GET", 200, "B")
        chat.expect_last(piece.strip())
        assert [message["role"] for message in chat.saved()] == ["user"]
        site.up.release()
    chat.expect_status("ready")
    user, assistant = before = chat.saved()
    assert (user["role"], user["parts"][0]["text"], assistant["role"]) == ("user", "How is the weather?", "assistant")
    check_answer(assistant)
    assert (len(site.up.requests), site.up.outcomes) == (1, ["finished"])

    assert chat.reload() == ("GET", 204, "B")  # after the end nothing is sent again
    chat.expect_status("ready")
    chat.expect_last(FIRST + SECOND)
    assert chat.saved() == before


@pytest.mark.parametrize("version", UI_VERSIONS)
def test_a_page_stops_its_answer_on_another_replica_and_goes_on(
    site: Site, open_chat: Callable[[str, str], Chat], version: int
) -> None:
    site.up.hold(*held_answer())
    chat = open_chat(f"chat{version}", f"stopped-{version}")
    chat.send("How is the weather?")
    chat.expect_last(FIRST.strip())
    chat.reload()
    chat.expect_last(FIRST.strip())
    assert chat.load(lambda: chat.page.click("text=Stop")) == ("DELETE", 204, "B")
    chat.expect_status("ready")
    until(lambda: site.up.outcomes == ["disconnected"])
    assert chat.reload() == ("GET", 204, "B")
    chat.expect_last(FIRST.strip())

    site.up.hold(b"".join(chunks(Reply.text("It is six."))))
    assert chat.send("And the time?") == ("POST", 200, "A")
    chat.expect_last("It is six.")
    chat.expect_status("ready")
    assert [message["role"] for message in chat.saved()] == ["user", "assistant", "user", "assistant"]
    sent = [message["content"] for message in site.up.requests[0]["messages"]]
    assert sent == ["How is the weather?", FIRST.strip(), "And the time?"]


def test_a_page_that_loses_its_connection_continues_without_a_reload(
    site: Site, open_chat: Callable[[str, str], Chat]
) -> None:
    """`useChat` asks again when the page becomes visible. Before AI SDK 7 it adds the answer to what it has of it."""
    site.up.hold(*held_answer())
    chat = open_chat("chat7", "cut")
    chat.send("How is the weather?")
    chat.expect_last(FIRST.strip())
    site.nginx.kill()
    chat.expect_status("network error")
    site.nginx.start()
    became_visible = "document.dispatchEvent(new Event('visibilitychange'))"
    assert chat.load(lambda: chat.page.evaluate(became_visible)) == ("GET", 200, "B")
    site.up.release()
    site.up.release()
    chat.expect_status("ready")
    check_answer(chat.saved()[-1])


FOLLOW = """async () => {
  const headers = { "content-type": "application/json" };
  const body = JSON.stringify({ model: "fast", input: "How is the weather?", background: true });
  const { id } = await (await fetch("/v1/responses", { method: "POST", headers, body })).json();
  window.numbers = [];
  window.source = new EventSource(`/v1/responses/${id}?stream=true`);
  for (const kind of KINDS) {
    source.addEventListener(kind, (event) => event.data && numbers.push(JSON.parse(event.data).sequence_number));
  }
}"""
KINDS = [
    *(f"response.{kind}" for kind in ("created", "in_progress", "completed")),
    *(f"response.{part}.{what}" for part in ("output_item", "content_part") for what in ("added", "done")),
    *(f"response.{part}.{what}" for part in ("output_text", "function_call_arguments") for what in ("delta", "done")),
]


def test_an_event_source_continues_by_itself_and_stops_at_the_end(site: Site, browser: Browser) -> None:
    site.up.hold(*held_answer())
    with closing(browser.new_page()) as page:
        page.set_default_timeout(STEP)
        page.goto(site.address("chat7", "other"))
        page.evaluate(FOLLOW.replace("KINDS", str(KINDS)))
        page.wait_for_function("numbers.length > 5")
        site.nginx.kill()
        page.wait_for_function("source.readyState === EventSource.CONNECTING")
        site.up.release()
        site.nginx.start()
        page.wait_for_function("source.readyState === EventSource.OPEN")
        site.up.release()
        page.wait_for_function("source.readyState === EventSource.CLOSED")
        numbers = page.evaluate("numbers")
    assert numbers == list(range(len(numbers)))
