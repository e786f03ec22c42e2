"""Files: the page as it is served, a stream as one HTML file, uploads and their bounds, and `penstock inspect`."""

from __future__ import annotations

import gzip
import json
import re
import signal
import subprocess
import sys
import threading
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from penstock import events as ev
from penstock.testing import RecordingHeader, Reply, wire, write_recording
from tests.cli.command_runner import environment, inside
from tests.page.exported_page import exported_data, exported_traces
from tests.support import sample_streams
from tests.support.client_requests import get, post
from tests.support.inspector import Inspected, inspected
from tests.support.inspector_bounds import bounds
from tests.support.inspector_calls import CLIENT, view
from tests.support.paths import PROJECT
from tests.support.stream_cases import cases

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

EXAMPLE = PROJECT / "examples/tides.sse"
STATIC = PROJECT / "src/penstock/_inspector/static"
LIMIT = 20.0
SECRET = "sk-proj-Zx81hQmT4vWcYbN2kR7dJ0fL"
POLICY = {
    "default-src": "'none'", "script-src": "'self'", "style-src": "'self'", "img-src": "'self' data: blob:",
    "media-src": "data: blob:", "connect-src": "'self'", "base-uri": "'none'", "form-action": "'none'",
    "frame-ancestors": "'none'",
}  # fmt: skip
TYPES = ["application/gzip+base64", "text/plain", "module"]  # the data, the worker, the page
SCRIPT = 'const a="</script>",b="<!--";import.meta.url;document.title=a+b'
STYLE = "body{color:red}a{content:'</style>'}"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page as Vite builds one."""
    folder = tmp_path_factory.mktemp("pages")
    (folder / "assets").mkdir()
    (folder / "index.html").write_text(
        '<!doctype html>\n<html lang="en">\n  <head>\n    <meta charset="utf-8">\n    <title>penstock</title>\n'
        '    <link rel="icon" type="image/svg+xml" href="/inspector/assets/icon.svg">\n'
        '    <script type="module" crossorigin src="/inspector/assets/main-1a.js"></script>\n'
        '    <link rel="stylesheet" crossorigin href="/inspector/assets/main-2b.css">\n'
        '  </head>\n  <body>\n    <div id="page"></div>\n  </body>\n</html>\n'
    )
    (folder / "assets/main-1a.js").write_text(SCRIPT)
    (folder / "assets/main-2b.css").write_text(STYLE)
    (folder / "assets/icon.svg").write_text("<svg/>")
    return folder


@pytest.fixture(scope="module")
def served(pages: Path) -> Iterator[Inspected]:
    """A gateway with this page, which knows a secret."""
    with inspected(pages=pages, env={"MY_API_KEY": "swordfish-7391"}) as running:
        yield running


# ── the page ──────────────────────────────────────────────────────────────────────────────────────


def test_the_page_and_its_files(served: Inspected, pages: Path) -> None:
    page, script = get(f"{served.url}/"), get(f"{served.url}/inspector/assets/main-1a.js")
    assert (page.text, page.headers["cache-control"]) == ((pages / "index.html").read_text(), "no-cache")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert script.headers["content-type"] == "text/javascript; charset=utf-8"
    assert "immutable" in script.headers["cache-control"]
    for name in ("../app.py", "..%2fapp.py", "/etc/passwd", "%2fetc%2fpasswd", "assets/.."):
        assert get(f"{served.url}/inspector/{name}").status_code == 404, name
    (pages / "assets/other-2.js").write_text("2")  # built anew while it runs
    assert get(f"{served.url}/inspector/assets/other-2.js").text == "2"


def test_every_answer_is_held_to_the_policy(served: Inspected) -> None:
    for path in ("/", "/inspector/about", "/inspector/nothing", "/inspector/live"):
        with httpx.stream("GET", f"{served.url}{path}", timeout=LIMIT) as reply:
            policy = dict(row.strip().split(" ", 1) for row in reply.headers["content-security-policy"].split(";"))
            assert policy == POLICY, path
            names = ("x-content-type-options", "referrer-policy", "x-frame-options", "access-control-allow-origin")
            assert [reply.headers.get(name) for name in names] == ["nosniff", "no-referrer", "DENY", None], path


def test_a_file_is_sent_in_the_form_that_the_browser_accepts(served: Inspected, pages: Path) -> None:
    script = pages / "assets/packed-1.js"
    script.write_text("let a;" * 100)
    (pages / "assets/packed-1.js.gz").write_bytes(gzip.compress(script.read_bytes()))
    (pages / "assets/packed-1.js.br").write_bytes(b"brotli")
    kept = {None: script, "gzip": pages / "assets/packed-1.js.gz", "br": pages / "assets/packed-1.js.br"}
    url = f"{served.url}/inspector/assets/packed-1.js"
    for accepted, sent in (
        ("gzip, deflate, br, zstd", "br"), ("gzip", "gzip"), ("br;q=0, gzip;q=0.5", "gzip"), ("", None),
        ("identity", None), ("gzip;q=0", None), ("gzip; q=0.000", None), ("BR", "br"),
    ):  # fmt: skip
        with httpx.stream("GET", url, headers={"accept-encoding": accepted}, timeout=LIMIT) as reply:
            body = b"".join(reply.iter_raw())
            assert reply.headers.get("content-encoding") == sent, accepted
            assert reply.headers["vary"] == "accept-encoding"
            assert reply.headers["content-type"] == "text/javascript; charset=utf-8"
            assert int(reply.headers["content-length"]) == len(body)
        assert body == kept[sent].read_bytes(), accepted
    assert get(f"{url}.gz").status_code == 404  # a form, not a file


def test_without_a_page_there_is_a_word_in_its_place(tmp_path: Path) -> None:
    with inspected(pages=tmp_path / "nothing") as gateway:
        page = get(f"{gateway.url}/")
        assert page.status_code == 200
        assert [word for word in ("make web", "curl -N", "replay/parallel-tools") if word not in page.text] == []
        view(gateway, "about")
        refused = post(f"{gateway.url}/inspector/export", content=wire("text", "openai-chat"))
        assert (refused.status_code, "make web" in refused.json()["error"]["message"]) == (400, True)


@pytest.mark.usefixtures("built")
def test_what_is_built_is_compressed_and_asks_the_world_for_nothing() -> None:
    large = [path for path in (STATIC / "assets").iterdir() if path.suffix in {".js", ".css"}]
    assert len(large) >= 2
    for path in large:
        assert gzip.decompress(path.with_name(f"{path.name}.gz").read_bytes()) == path.read_bytes()
        assert 0 < path.with_name(f"{path.name}.br").stat().st_size < path.stat().st_size
    for path in STATIC.rglob("*"):
        if path.suffix in {".html", ".css"}:
            assert not re.search(r"""(?:url\(|src=|href=)["']?(?:https?:)?//""", path.read_text()), path.name
    html = (STATIC / "index.html").read_text()
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\son[a-z]+=|style=", html)  # the policy allows nothing inline


# ── a stream as one file ──────────────────────────────────────────────────────────────────────────


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


def stream(*words: str) -> bytes:
    events: list[ev.AnyEvent] = [
        ev.Start(id="1", model="m"), ev.TextStart(0), *(ev.TextDelta(0, word) for word in words), ev.TextEnd(0),
        ev.CallStart(1, "c1", "</script>"), ev.CallEnd(1, "c1", "</script>", "{}"), ev.Finish("calls"),
    ]  # fmt: skip
    return b"".join(Reply.of("openai-chat", events).chunks)


def exported(gateway: Inspected, body: bytes, **query: str) -> bytes:
    reply = CLIENT.post(f"{gateway.url}/inspector/export", params={"name": 'a <b> & "c".sse', **query}, content=body)
    assert reply.status_code == 200, reply.text
    return reply.content


def test_an_export_holds_the_view_of_every_consumer_that_is_chosen(served: Inspected) -> None:
    body, consumers = stream("Hello"), view(served, "about")["consumers"]
    traces = exported_traces(exported(served, body, **{"as": "anthropic", "with": "all"}))
    assert next(iter(traces)) == "anthropic"
    assert set(traces) == set(consumers)
    for consumer, trace in traces.items():
        query = {"as": consumer, "name": 'a <b> & "c".sse'}
        whole = CLIENT.post(f"{served.url}/inspector/trace", params=query, content=body).json()
        if consumer != "anthropic":
            assert (trace["same"], trace["frames"], trace["events"]) == ("anthropic", [], [])
            trace |= {name: traces["anthropic"][name] for name in ("frames", "events")}
            del trace["same"]
        assert trace == whole, consumer
    for query, names in (({}, ["responses"]), ({"with": "gemini,responses"}, ["responses", "gemini"])):
        assert list(exported_traces(exported(served, body, **{"as": "responses", **query}))) == names
    with bounds(export=100):
        assert list(exported_traces(exported(served, body, **{"with": "all"}))) == ["openai-chat"]


HOSTILE = (
    "</script><script>alert(1)</script>", "<!--<script>", "]]>", "<img src=x onerror=alert(1)>", "\u2028\u2029\x00",
    "\\u003c/script>", "</SCRIPT >", "javascript:alert(1)", '"}}</title></head><body onload=alert(1)>', "\ud7ff😀",
)  # fmt: skip


def test_nothing_that_was_said_gets_out_of_its_place(served: Inspected) -> None:
    html = exported(served, stream(*HOSTILE))
    page = Read(html.decode())
    assert [attrs["type"] for attrs, _ in page.all("script")] == TYPES
    assert not [tag for tag, attrs, _ in page.found if tag in {"img", "iframe", "object"} or "onload" in attrs]
    trace = exported_traces(html)["openai-chat"]
    assert [event["body"]["text"] for event in trace["events"] if event["type"] == "text-delta"] == list(HOSTILE)
    assert [words for words in HOSTILE if words.encode() in html] == []


def test_only_the_pages_own_script_may_run_and_it_asks_the_world_for_nothing(served: Inspected) -> None:
    page = Read(exported(served, stream("Hi")).decode())
    (policy,) = [
        attrs["content"] for attrs, _ in page.all("meta") if attrs.get("http-equiv") == "content-security-policy"
    ]
    (script,) = [text for attrs, text in page.all("script") if attrs.get("type") == "module"]
    (style,) = [text for _, text in page.all("style")]
    for rule, text in (("script-src", script), ("style-src", style)):
        assert f"{rule} 'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" in policy
    assert "default-src 'none'" in policy
    assert [word for word in ("unsafe", "connect-src") if word in policy] == []
    assert script.replace("<\\/", "</").replace("<\\!", "<!") == SCRIPT
    tags = [tag for tag, _, _ in page.found]
    assert tags.index("meta") < tags.index("style") < tags.index("script")  # the policy comes before what it rules
    assert [tag for tag, attrs, _ in page.found if {"src", "href"} & set(attrs)] == []
    ((_, title),) = page.all("title")
    assert title.startswith('a <b> & "c".sse')


def test_an_export_has_no_secrets_is_small_and_is_saved(served: Inspected) -> None:
    html = exported(served, stream(SECRET, "the word is swordfish-7391"))
    for text in (html, exported_data(html)):
        assert [word for word in (SECRET, "swordfish") if word.encode() in text] == []
    assert b"[secret]" in exported_data(html)
    long = exported(served, b"".join(sample_streams.many(10_000)), **{"as": "openai-chat"})
    assert len(exported_traces(long)["openai-chat"]["events"]) > 10_000
    assert len(long) < 1_000_000
    for case in cases()[::19]:
        if case.streamed and not case.options:
            assert exported_traces(exported(served, case.body, protocol=case.source)), case.id
    url = f"{served.url}/inspector/export?name=odd%20%22name%22.sse&as=responses"
    reply = CLIENT.post(url, content=stream("Hi"))
    assert reply.headers["content-disposition"] == 'attachment; filename="odd-name-.sse.html"'


@pytest.mark.usefixtures("built")
def test_the_built_page_is_made_one_file(gateway: Inspected) -> None:
    html = exported(gateway, stream("Hi"))
    page = Read(html.decode())
    assert [attrs["type"] for attrs, _ in page.all("script")] == TYPES
    assert [tag for tag, attrs, _ in page.found if {"src", "href"} & set(attrs)] == []
    assert json.loads(exported_data(html))["version"] == 1
    assert not re.search(rb"""(?:src|href)=["'](?:https?:)?//""", html)


# ── uploads ───────────────────────────────────────────────────────────────────────────────────────

CHUNK = b'data: {"id":"x","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'
POSTS = ("trace", "export", "breakdown")


def traced(gateway: Inspected, body: bytes, **query: str) -> httpx.Response:
    return CLIENT.post(f"{gateway.url}/inspector/trace", params=query, content=body)


def test_a_file_is_traced(gateway: Inspected) -> None:
    trace = traced(gateway, CHUNK, **{"as": "anthropic", "name": "answer.sse"}).json()
    assert (trace["protocol"], trace["consumer"], trace["title"]) == ("openai-chat", "anthropic", "answer.sse")
    assert (trace["timed"], trace["row"], trace["request"]) == (False, None, "")
    assert [event["body"]["kind"] for event in trace["events"] if event["type"] == "fault"] == ["truncated"]
    headed = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n" + CHUNK
    assert traced(gateway, headed).json()["events"] == traced(gateway, CHUNK).json()["events"]
    assert traced(gateway, CHUNK, frame="0").text.startswith('{"id":"x"')
    for protocol, consumer in (("anthropic", "anthropic"), ("gemini", "gemini"), ("cohere", "openai-chat")):
        assert traced(gateway, wire("text", protocol)).json()["consumer"] == consumer  # a client of its own protocol


def test_a_file_that_is_none_is_said(gateway: Inspected) -> None:
    for query, body, said in (
        ({}, b"", "there is nothing in it"), ({}, b"Dear Sir or Madam", "protocol"),
        ({"protocol": "nobody"}, CHUNK, "nobody"), ({"frame": "7"}, CHUNK, "frame: there are 1"),
        *(({"as": name}, CHUNK, f"as: nobody is called '{name}'") for name in ("nobody", "bedrock")),
        ({}, b'{"form":"penstock-recording","version":99}\n', "version 99"),
        ({}, b'{"form":"penstock-recording"}\nnonsense\n', ":2: not a chunk"),
    ):  # fmt: skip
        reply = traced(gateway, body, **query)
        assert reply.status_code == 400, said
        assert said in reply.json()["error"]["message"]


def test_more_than_there_is_room_for_is_refused(gateway: Inspected) -> None:
    for route in POSTS:
        reply = post(f"{gateway.url}/inspector/{route}", content=b"x" * (32 * 2**20 + 1))
        assert (reply.status_code, reply.json()["error"]["code"]) == (413, "too-large")
        assert reply.json()["error"]["message"] == "the body is over 33554432 bytes"


def test_a_stream_of_too_many_steps_is_refused(tmp_path: Path) -> None:
    """Of many tiny frames, of one frame with many parts, of a recording with many chunks; also as an export."""
    calls = [{"index": n, "id": f"c{n}", "function": {"name": "f", "arguments": "{}"}} for n in range(1_000)]
    tape = tmp_path / "many.tape"
    write_recording(tape, RecordingHeader(protocol="openai-chat"), [(0.0, b"data: 1\n\n")] * 2_000)
    long = [
        *(frame * 200_000 for frame in (b"data: 1\n\n", b"data: {}\n\n", b"1\n")), tape.read_bytes(),
        f"data: {json.dumps({'choices': [{'delta': {'tool_calls': calls}}]})}\n\n".encode(), CHUNK * 1_000,
    ]  # fmt: skip
    with bounds(steps=1_000), inspected() as running:
        for body in long:
            for route in ("trace", "export"):
                url = f"{running.url}/inspector/{route}?protocol=openai-chat"
                reply = CLIENT.post(url, content=body)
                error = reply.json()["error"]
                assert (reply.status_code, error["code"]) == (413, "trace_too_long"), body[:50]
                assert "more than 1,000 frames, events and outputs" in error["message"]
                assert "penstock inspect FILE" in error["message"]
        trace = traced(running, CHUNK * 100).json()
    steps = sum(len(trace[rows]) for rows in ("frames", "events", "outputs"))
    for most, status in ((steps, 200), (steps - 1, 413)):
        with bounds(steps=most), inspected() as running:
            assert traced(running, CHUNK * 100).status_code == status, "exactly so many are shown"


def test_a_trace_that_is_too_long_is_refused() -> None:
    with bounds(upload_answer=2**20), inspected() as running:
        for route in ("trace", "export"):
            reply = CLIENT.post(f"{running.url}/inspector/{route}", content=CHUNK * 5_000)
            assert (reply.status_code, "more than 1 MiB" in reply.json()["error"]["message"]) == (413, True)
        assert traced(running, CHUNK).status_code == 200


def test_a_stream_of_50000_events_is_shown(gateway: Inspected) -> None:
    """With the secrets of each of its parts removed."""
    body = CHUNK * 50_000 + CHUNK.replace(b'"a"', f'"key {SECRET}"'.encode())
    reply = traced(gateway, body)
    assert len(reply.json()["frames"]) == 50_001
    assert (SECRET in reply.text, "key [secret]" in reply.text) == (False, True)


def test_the_request_of_a_file_comes_before_it(gateway: Inspected) -> None:
    asked = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": f"My key is {SECRET} — why?"}]}
    request, answer = json.dumps(asked, ensure_ascii=False).encode(), b"".join(sample_streams.interleaved())
    body, query = request + answer, {"request_bytes": str(len(request))}
    trace = traced(gateway, body, **query).json()
    assert json.loads(trace["request"])["messages"][0]["content"] == "My key is [secret] — why?"
    assert trace["events"] == traced(gateway, answer).json()["events"]
    counted = CLIENT.post(f"{gateway.url}/inspector/breakdown", params=query, content=body).json()
    assert (counted["lost"], counted["model"]) == ("", "m")
    html = CLIENT.post(f"{gateway.url}/inspector/export", params=query, content=body).content
    assert SECRET.encode() not in exported_data(html)
    for wrong in ("-1", "x", str(len(body) + 1)):
        assert traced(gateway, body, request_bytes=wrong).status_code == 400
    assert "there is nothing in it" in traced(gateway, request, **query).json()["error"]["message"]


# ── the command ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("built")
def test_the_command_writes_a_file(tmp_path: Path) -> None:
    out = tmp_path / "tides.html"
    done = inside("inspect", "--html", str(out), "--to", "anthropic", str(EXAMPLE))
    assert (done.returncode, b"tides.html" in done.stderr) == (0, True), done.stderr
    traces = exported_traces(out.read_bytes())
    assert (next(iter(traces)), traces["anthropic"]["title"]) == ("anthropic", "tides.sse")


@pytest.mark.usefixtures("built")
def test_a_port_that_is_taken_is_one_line(gateway: Inspected) -> None:
    port = gateway.url.rpartition(":")[2]
    done = inside("inspect", "--web", "--no-browser", "--port", port, str(EXAMPLE))
    assert (done.returncode, done.stderr.count(b"\n"), b"is taken" in done.stderr) == (2, 1, True)


@pytest.mark.usefixtures("built")
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_the_command_shows_a_file() -> None:
    command = [sys.executable, "-m", "penstock", "inspect", "--web", "--no-browser", str(EXAMPLE)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment())
    stop = threading.Timer(LIMIT, process.kill)
    stop.start()
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+", line)
        assert found, line
        assert line.strip().endswith("/#/file")
        _look_at(found[0])
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT) in {0, 130}
    finally:
        stop.cancel()
        process.kill()
        process.wait()
        if process.stderr is not None:
            process.stderr.close()


def _look_at(base: str) -> None:
    assert get(f"{base}/").text.startswith("<!doctype html>")
    about = get(f"{base}/inspector/about").json()
    assert (about["file"], about["live"], about["key"]) == ("tides.sse", False, "none")
    trace: Any = get(f"{base}/inspector/file?as=openai-chat").json()
    assert (trace["title"], trace["protocol"], trace["consumer"]) == ("tides.sse", "responses", "openai-chat")
    assert get(f"{base}/inspector/export").headers["content-disposition"].startswith("attachment")
    assert post(f"{base}/inspector/trace", content=EXAMPLE.read_bytes()).json()["events"] == trace["events"]
    assert get(f"{base}/inspector/turns").status_code == 404
    for headers in ({"host": "evil.example"}, {"origin": "https://evil.example"}, {"origin": "http://localhost:1"}):
        assert get(f"{base}/inspector/file", headers=headers).status_code == 403
