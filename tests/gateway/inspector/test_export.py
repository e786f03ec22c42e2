"""A stream as one HTML file: everything in it, nothing it asks the world for, and nothing in it that can run."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pytest

from penstock import events as ev
from penstock._inspector import file_inspector
from penstock._inspector.file_inspector import export_html
from penstock._inspector.static_files import StaticFiles
from penstock._inspector.stream_traces import CONSUMERS, DEFAULT, read_trace, source_from_file
from penstock.testing import Reply
from tests.cli.command_runner import inside
from tests.gateway.inspector import sample_streams
from tests.page.exported_page import exported_data, exported_traces
from tests.support.client_requests import post
from tests.support.inspector import inspected
from tests.support.paths import PROJECT
from tests.support.stream_cases import cases

if TYPE_CHECKING:
    from pathlib import Path

    from penstock._inspector.stream_traces import TraceSource

TYPES = ["application/gzip+base64", "text/plain", "module"]  # the data, the worker, the page
SCRIPT = 'const a="</script>",b="<!--";import.meta.url;document.title=a+b'
STYLE = "body{color:red}a{content:'</style>'}"
HOSTILE = [
    "</script><script>alert(1)</script>", "<!--<script>", "]]>", "<img src=x onerror=alert(1)>", "\u2028\u2029\x00",
    "\\u003c/script>", "</SCRIPT >", "javascript:alert(1)", '"}}</title></head><body onload=alert(1)>', "\ud7ff😀",
]  # fmt: skip


@pytest.fixture
def pages(tmp_path: Path) -> StaticFiles:
    """A page as Vite builds one."""
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text(
        '<!doctype html>\n<html lang="en">\n  <head>\n    <meta charset="utf-8">\n    <title>penstock</title>\n'
        '    <link rel="icon" type="image/svg+xml" href="/inspector/assets/icon.svg">\n'
        '    <script type="module" crossorigin src="/inspector/assets/main-1a.js"></script>\n'
        '    <link rel="stylesheet" crossorigin href="/inspector/assets/main-2b.css">\n'
        '  </head>\n  <body>\n    <div id="page"></div>\n  </body>\n</html>\n'
    )
    (tmp_path / "assets/main-1a.js").write_text(SCRIPT)
    (tmp_path / "assets/main-2b.css").write_text(STYLE)
    (tmp_path / "assets/icon.svg").write_text("<svg/>")
    return StaticFiles(tmp_path)


class Read(HTMLParser):
    """The elements of a document, as a browser would find them."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, dict[str, str], str]] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {name: value or "" for name, value in attrs}, ""))

    def handle_endtag(self, tag: str) -> None:
        self.found.append((f"/{tag}", {}, ""))

    def handle_data(self, data: str) -> None:
        if self.found:
            tag, attrs, text = self.found[-1]
            self.found[-1] = (tag, attrs, text + data)

    def all(self, tag: str) -> list[tuple[dict[str, str], str]]:
        return [(attrs, text) for name, attrs, text in self.found if name == tag]


def stream(*words: str) -> TraceSource:
    events: list[ev.AnyEvent] = [
        ev.Start(id="1", model="m"), ev.TextStart(0), *(ev.TextDelta(0, word) for word in words), ev.TextEnd(0),
        ev.CallStart(1, "c1", "</script>"), ev.CallEnd(1, "c1", "</script>", "{}"), ev.Finish("calls"),
    ]  # fmt: skip
    return source_from_file(b"".join(Reply.of("openai-chat", events).chunks), 'a <b> & "c".sse')


def opened(html: bytes) -> tuple[Read, dict[str, Any]]:
    page = Read(html.decode())
    found: dict[str, Any] = json.loads(exported_data(html))
    return page, found


def test_it_holds_every_consumers_view(pages: StaticFiles) -> None:
    source = stream("Hello")
    _, data = opened(export_html(source, pages, consumer="anthropic"))
    traces = data["traces"]
    assert next(iter(traces)) == "anthropic"
    assert set(traces) == set(CONSUMERS)
    for consumer, trace in traces.items():
        whole = json.loads(_encoded(source, consumer))
        if consumer != "anthropic":
            assert (trace["same"], trace["frames"], trace["events"]) == ("anthropic", [], [])
            trace |= {name: traces["anthropic"][name] for name in ("frames", "events")}
            del trace["same"]
        assert trace == whole


def _encoded(source: TraceSource, consumer: str) -> bytes:
    from penstock._inspector.api_router import encode_redacted

    return encode_redacted(read_trace(source, consumer).trace())


@pytest.mark.parametrize("words", HOSTILE, ids=repr)
def test_nothing_that_was_said_gets_out_of_its_place(pages: StaticFiles, words: str) -> None:
    html = export_html(stream(words, words), pages)
    page, data = opened(html)
    assert [attrs["type"] for attrs, _ in page.all("script")] == TYPES
    assert not [tag for tag, attrs, _ in page.found if tag in {"img", "iframe", "object"} or "onload" in attrs]
    said = [event["body"]["text"] for event in data["traces"][DEFAULT]["events"] if event["type"] == "text-delta"]
    assert said == [words, words]
    assert words.encode() not in html


def test_only_the_pages_own_script_may_run(pages: StaticFiles) -> None:
    page, _ = opened(export_html(stream("Hi"), pages))
    (policy,) = [
        attrs["content"] for attrs, _ in page.all("meta") if attrs.get("http-equiv") == "content-security-policy"
    ]
    (script,) = [text for attrs, text in page.all("script") if attrs.get("type") == "module"]
    (style,) = [text for _, text in page.all("style")]
    assert f"script-src '{_hash(script)}'" in policy
    assert f"style-src '{_hash(style)}'" in policy
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "connect-src" not in policy
    assert script.replace("<\\/", "</").replace("<\\!", "<!") == SCRIPT
    tags = [tag for tag, _, _ in page.found]
    assert tags.index("meta") < tags.index("style") < tags.index("script")  # the policy comes before what it rules


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


def test_it_asks_the_world_for_nothing(pages: StaticFiles) -> None:
    page, _ = opened(export_html(stream("Hi"), pages))
    for tag, attrs, _ in page.found:
        assert not {"src", "href"} & set(attrs), tag
    ((_, title),) = page.all("title")
    assert title.startswith('a <b> & "c".sse')


@pytest.mark.usefixtures("built")
def test_the_built_page_is_made_one_file() -> None:
    html = export_html(stream("Hi"), StaticFiles())
    page, data = opened(html)
    assert [attrs["type"] for attrs, _ in page.all("script")] == TYPES
    assert not [tag for tag, attrs, _ in page.found if {"src", "href"} & set(attrs)]
    assert data["version"] == 1
    assert not re.search(rb"""(?:src|href)=["'](?:https?:)?//""", html)


def test_consumers_for_which_there_is_no_room_are_left_out(pages: StaticFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_inspector, "MAX_EXPORT_BYTES", 100)
    _, data = opened(export_html(stream("Hello"), pages))
    assert list(data["traces"]) == [DEFAULT]


def test_secrets_are_gone(pages: StaticFiles) -> None:
    html = export_html(stream("sk-planted0123456789abcdef", "the word is swordfish"), pages, ["swordfish"])
    for text in (html, exported_data(html)):
        assert b"planted" not in text
        assert b"swordfish" not in text
    assert b"[secret]" in exported_data(html)


def test_it_has_the_consumers_that_are_chosen(pages: StaticFiles) -> None:
    _, data = opened(export_html(stream("Hi"), pages, consumer="anthropic", others=["gemini", "anthropic"]))
    assert list(data["traces"]) == ["anthropic", "gemini"]
    with inspected() as gateway:
        gateway.inspector._router.pages._folder = pages._folder
        body = b"".join(Reply.of("openai-chat", [ev.Start(), ev.TextStart(0), ev.TextDelta(0, "Hi")]).chunks)
        for query, found in (("", ["responses"]), ("&with=gemini", ["responses", "gemini"])):
            reply = post(f"{gateway.url}/inspector/export?as=responses{query}", content=body)
            assert list(exported_traces(reply.content)) == found
        everyone = post(f"{gateway.url}/inspector/export?as=responses&with=all", content=body)
        assert set(exported_traces(everyone.content)) == set(CONSUMERS)


def test_long_streams_make_small_files(pages: StaticFiles) -> None:
    source = source_from_file(b"".join(sample_streams.many(10_000)), "many.sse")
    html = export_html(source, pages, consumer="openai-chat", others=[])
    assert len(exported_traces(html)["openai-chat"]["events"]) > 10_000
    assert len(html) < 1_000_000


def test_every_golden_stream_makes_a_file(pages: StaticFiles) -> None:
    for case in cases()[::19]:
        if case.streamed and not case.options:
            opened(export_html(source_from_file(case.body, case.id, case.source), pages))


# ── where it is asked for ─────────────────────────────────────────────────────────────────────────


def test_over_http_it_is_saved_not_shown(pages: StaticFiles) -> None:
    with inspected() as gateway:
        gateway.inspector._router.pages._folder = pages._folder
        body = b"".join(Reply.of("openai-chat", [ev.Start(), ev.TextStart(0), ev.TextDelta(0, "Hi")]).chunks)
        reply = post(f"{gateway.url}/inspector/export?name=odd%20%22name%22.sse&as=responses", content=body)
    assert reply.headers["content-disposition"] == 'attachment; filename="odd-name-.sse.html"'
    assert next(iter(opened(reply.content)[1]["traces"])) == "responses"


def test_without_a_page_it_is_said(tmp_path: Path) -> None:
    with inspected() as gateway:
        gateway.inspector._router.pages._folder = tmp_path / "nothing"
        reply = post(f"{gateway.url}/inspector/export", content=b'data: {"type":"message_start","message":{}}\n\n')
    assert reply.status_code == 400
    assert "make web" in reply.json()["error"]["message"]


@pytest.mark.usefixtures("built")
def test_the_command_writes_it(tmp_path: Path) -> None:
    example = PROJECT / "examples/tides.sse"
    out = tmp_path / "tides.html"
    done = inside("inspect", "--html", str(out), "--to", "anthropic", str(example))
    assert done.returncode == 0, done.stderr
    assert b"tides.html" in done.stderr
    _, data = opened(out.read_bytes())
    assert next(iter(data["traces"])) == "anthropic"
    assert data["traces"]["anthropic"]["title"] == "tides.sse"
