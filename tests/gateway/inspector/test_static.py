"""The page as it is served: its headers, its files, the word in its place where it is not built; and a file by itself."""

from __future__ import annotations

import gzip
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock._inspector.static_files import INDEX, StaticFiles
from tests.cli.command_runner import environment
from tests.support.client_requests import get, post
from tests.support.inspector import inspected
from tests.support.paths import PROJECT

if TYPE_CHECKING:
    from tests.support.inspector import Inspected


EXAMPLE = PROJECT / "examples/tides.sse"
LIMIT = 20.0
POLICY = {
    "default-src": "'none'", "script-src": "'self'", "style-src": "'self'", "img-src": "'self' data: blob:",
    "media-src": "data: blob:", "connect-src": "'self'", "base-uri": "'none'", "form-action": "'none'",
    "frame-ancestors": "'none'",
}  # fmt: skip


@pytest.fixture
def made(tmp_path: Path) -> Path:
    (tmp_path / "assets").mkdir()
    (tmp_path / INDEX).write_text("<!doctype html><title>a page</title>")
    (tmp_path / "assets/main-1.js").write_text("1")
    return tmp_path


def serve_from(gateway: Inspected, folder: Path) -> None:
    gateway.inspector._router.pages._folder = folder
    gateway.inspector._router.pages._files = {}


def test_the_page_and_its_files(made: Path) -> None:
    with inspected() as gateway:
        serve_from(gateway, made)
        page, script = get(f"{gateway.url}/"), get(f"{gateway.url}/inspector/assets/main-1.js")
        assert (page.text, page.headers["cache-control"]) == ("<!doctype html><title>a page</title>", "no-cache")
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert script.headers["content-type"] == "text/javascript; charset=utf-8"
        assert "immutable" in script.headers["cache-control"]
        for name in ("../app.py", "..%2fapp.py", "/etc/passwd", "%2fetc%2fpasswd", "assets/.."):
            assert get(f"{gateway.url}/inspector/{name}").status_code == 404
        (made / "assets/main-2.js").write_text("2")  # built anew while it runs
        assert get(f"{gateway.url}/inspector/assets/main-2.js").text == "2"


@pytest.mark.parametrize("path", ["/", "/inspector/about", "/inspector/nothing", "/inspector/live"])
def test_every_answer_is_held_to_the_policy(made: Path, path: str) -> None:
    import httpx

    with inspected() as gateway:
        serve_from(gateway, made)
        with httpx.stream("GET", f"{gateway.url}{path}", timeout=LIMIT) as reply:
            found = dict(row.strip().split(" ", 1) for row in reply.headers["content-security-policy"].split(";"))
            assert found == POLICY
            assert reply.headers["x-content-type-options"] == "nosniff"
            assert reply.headers["referrer-policy"] == "no-referrer"
            assert reply.headers["x-frame-options"] == "DENY"
            assert "access-control-allow-origin" not in reply.headers


@pytest.mark.parametrize(
    ("accepted", "sent"),
    [
        ("gzip, deflate, br, zstd", "br"), ("gzip", "gzip"), ("br;q=0, gzip;q=0.5", "gzip"), ("", None), ("identity", None),
        ("gzip;q=0", None), ("gzip; q=0.000", None), ("BR", "br"),
    ],
)  # fmt: skip
def test_a_file_is_sent_in_the_form_that_the_browser_accepts(made: Path, accepted: str, sent: str | None) -> None:
    import httpx

    script = made / "assets/main-1.js"
    script.write_text("let a;" * 100)
    (made / "assets/main-1.js.gz").write_bytes(gzip.compress(script.read_bytes()))
    (made / "assets/main-1.js.br").write_bytes(b"brotli")
    with inspected() as gateway:
        serve_from(gateway, made)
        url = f"{gateway.url}/inspector/assets/main-1.js"
        with httpx.stream("GET", url, headers={"accept-encoding": accepted}, timeout=LIMIT) as reply:
            body = b"".join(reply.iter_raw())
            assert reply.headers.get("content-encoding") == sent
            assert reply.headers["vary"] == "accept-encoding"
            assert reply.headers["content-type"] == "text/javascript; charset=utf-8"
            assert int(reply.headers["content-length"]) == len(body)
        kept = {None: script, "gzip": made / "assets/main-1.js.gz", "br": made / "assets/main-1.js.br"}
        assert body == kept[sent].read_bytes()
        assert get(f"{url}.gz").status_code == 404  # a form, not a file


@pytest.mark.usefixtures("built")
def test_every_large_file_of_the_page_is_compressed() -> None:
    folder = Path(str(StaticFiles()._folder))
    large = [path for path in (folder / "assets").iterdir() if path.suffix in {".js", ".css"}]
    assert len(large) >= 2
    for path in large:
        assert gzip.decompress(Path(f"{path}.gz").read_bytes()) == path.read_bytes()
        assert 0 < Path(f"{path}.br").stat().st_size < path.stat().st_size


def test_without_a_page_there_is_a_word_in_its_place(tmp_path: Path) -> None:
    with inspected() as gateway:
        serve_from(gateway, tmp_path / "nothing")
        page = get(f"{gateway.url}/")
        assert page.status_code == 200
        assert "make web" in page.text
        assert "curl -N" in page.text
        assert "replay/parallel-tools" in page.text
        assert get(f"{gateway.url}/inspector/about").status_code == 200


@pytest.mark.usefixtures("built")
def test_what_is_built_asks_the_world_for_nothing() -> None:
    folder = Path(str(StaticFiles()._folder))
    for path in folder.rglob("*"):
        if path.suffix in {".html", ".css"}:
            assert not re.search(r"""(?:url\(|src=|href=)["']?(?:https?:)?//""", path.read_text()), path.name
    html = (folder / INDEX).read_text()
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\son[a-z]+=|style=", html)  # the policy allows nothing inline


# ── a file by itself ──────────────────────────────────────────────────────────────────────────────


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
        _looked_at(found[0])
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT) in {0, 130}
    finally:
        stop.cancel()
        process.kill()
        process.wait()
        if process.stderr is not None:
            process.stderr.close()


def _looked_at(base: str) -> None:
    assert get(f"{base}/").text.startswith("<!doctype html>")
    about = get(f"{base}/inspector/about").json()
    assert (about["file"], about["live"], about["key"]) == ("tides.sse", False, "none")
    trace = get(f"{base}/inspector/file?as=openai-chat").json()
    assert (trace["title"], trace["protocol"], trace["consumer"]) == ("tides.sse", "responses", "openai-chat")
    assert get(f"{base}/inspector/export").headers["content-disposition"].startswith("attachment")
    assert post(f"{base}/inspector/trace", content=EXAMPLE.read_bytes()).json()["events"] == trace["events"]
    assert get(f"{base}/inspector/turns").status_code == 404
    for headers in ({"host": "evil.example"}, {"origin": "https://evil.example"}, {"origin": "http://localhost:1"}):
        assert get(f"{base}/inspector/file", headers=headers).status_code == 403


def test_a_port_that_is_taken_is_one_line(built: None, gateway: Inspected) -> None:
    from tests.cli.command_runner import inside

    assert built is None
    port = gateway.url.rpartition(":")[2]
    done = inside("inspect", "--web", "--no-browser", "--port", port, str(EXAMPLE))
    assert (done.returncode, done.stderr.count(b"\n")) == (2, 1)
    assert b"is taken" in done.stderr
