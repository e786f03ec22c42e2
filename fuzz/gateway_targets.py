"""Targets for the gateway itself: bytes to the real server protocol, WebSocket messages, its files."""

from __future__ import annotations

import asyncio
import logging
import tempfile
import tomllib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h11
import msgspec

from fuzz.mutation import JsonMutator, LinesMutator
from fuzz.request_targets import bodies
from fuzz.target import BrokenPromiseError, Target, Verdict, promise
from fuzz.transport import FakeTransport, event_loop
from penstock._gateway.app import App
from penstock._gateway.byte_budget import websocket_protocol
from penstock._gateway.config import GatewayConfig, JournalTable, Serve, StateTable, read_config
from penstock._http.uvicorn_server import uvicorn_config
from penstock._store.key_store import FileKeyStore
from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import MutableMapping, Sequence

    from fuzz.mutation import Mutator
    from fuzz.target import Check

SPINS = 100  # rounds of the loop that a request gets before its client leaves
PATIENCE = 10.0  # seconds in which a request must be over once its client has left
INTERNAL = 500


class Errors(logging.Handler):
    """Collects what is logged as an error: the gateway logs an exception and answers 500."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(record)

    def check(self) -> None:
        """Raise what was logged."""
        found, self.found = self.found, []
        for record in found:
            error = record.exc_info[1] if record.exc_info else None
            raise BrokenPromiseError(f"the gateway logs an error: {record.getMessage()[:200]}") from error


class Gateway:
    """The application, and uvicorn's configuration for it, as `penstock serve` has them."""

    def __init__(self) -> None:
        config = GatewayConfig(journal=JournalTable(path="off"), state=StateTable(path="memory"), serve=Serve(pace=0.0))
        self.app = App(config, env={})
        self.uvicorn: Any = uvicorn_config(self.app, config.serve, websocket_protocol(self.app, config.serve))
        self.uvicorn.load()
        self.errors = Errors()
        for name in ("penstock", "uvicorn", "asyncio"):
            logger = logging.getLogger(name)
            logger.addHandler(self.errors)
            logger.propagate = False

    async def serve(self, data: bytes) -> tuple[bytes, bool]:
        """What a connection that sends these bytes, and then leaves, is sent; and whether a whole head was read."""
        from uvicorn.server import ServerState  # noqa: PLC0415 — an extra

        state = ServerState()
        protocol = self.uvicorn.http_protocol_class(config=self.uvicorn, server_state=state, app_state={})
        transport = FakeTransport()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        protocol.data_received(data)
        for _ in range(SPINS):
            await asyncio.sleep(0)
            if not state.tasks:
                break
        protocol.connection_lost(None)
        if state.tasks:
            _, late = await asyncio.wait(state.tasks, timeout=PATIENCE)
            promise(not late, "a request goes on though its client has left")
        return bytes(transport.written), protocol.cycle is not None

    async def talk(self, message: bytes) -> list[str]:
        """The events that answer one WebSocket message."""
        answers: list[str] = []
        over = asyncio.Event()
        incoming = iter(
            [{"type": "websocket.connect"}, {"type": "websocket.receive", "text": message.decode("utf-8", "replace")}]
        )

        async def receive() -> MutableMapping[str, Any]:
            found = next(incoming, None)
            if found is None:
                await over.wait()
                return {"type": "websocket.disconnect", "code": 1000}
            return found

        async def send(sent: MutableMapping[str, Any]) -> None:
            answers.append(str(msgspec.json.decode(sent["text"]).get("type")) if "text" in sent else str(sent["type"]))
            if answers[-1] in ENDS:
                over.set()

        scope: dict[str, Any] = {
            "type": "websocket",
            "path": "/v1/responses",
            "headers": [(b"host", b"127.0.0.1")],
            "query_string": b"",
        }
        scope |= {"client": ("127.0.0.1", 50000), "scheme": "ws", "subprotocols": [], "extensions": {}}
        await asyncio.wait_for(self.app(scope, receive, send), PATIENCE)
        return answers


ENDS = frozenset({"response.completed", "response.failed", "response.incomplete", "error", "websocket.close"})


@cache
def gateway() -> Gateway:
    return Gateway()


def check_request(data: bytes) -> Verdict:
    """Whatever a client sends, it is answered in HTTP, without an internal error, and all work ends when it leaves."""
    made = gateway()
    written, whole = event_loop().run_until_complete(made.serve(data))
    made.errors.check()
    statuses = _statuses(written)
    promise(INTERNAL not in statuses, "an internal error is answered")
    return whole, (tuple(statuses[:3]), whole)


def _statuses(written: bytes) -> list[int]:
    """The statuses of the answers that were written, as h11 reads them."""
    found: list[int] = []
    while written:
        client = h11.Connection(h11.CLIENT)
        client.send(h11.Request(method="POST", target="/", headers=[("host", "x"), ("content-length", "0")]))
        client.send(h11.EndOfMessage())
        client.receive_data(written)
        event = client.next_event()
        while isinstance(event, h11.Response | h11.InformationalResponse | h11.Data):
            if isinstance(event, h11.Response):
                found.append(event.status_code)
            event = client.next_event()
        written = client.trailing_data[0] if isinstance(event, h11.EndOfMessage) else b""
    return found


def check_message(data: bytes) -> Verdict:
    """Every message is answered by a whole response or an error."""
    made = gateway()
    answers = event_loop().run_until_complete(made.talk(data))
    made.errors.check()
    promise(set(answers) & ENDS, f"no end among {answers[:5]}")
    return "response.created" in answers, frozenset(answers)


def check_config(data: bytes) -> Verdict:
    """A file is read, or an error names the file; whatever TOML it is."""
    text = data.decode("utf-8", "replace")
    try:
        tomllib.loads(text)
        valid = True
    except (tomllib.TOMLDecodeError, RecursionError):
        valid = False
    try:
        read_config(text, Path("penstock.toml"))
    except InputError as error:
        promise("penstock.toml" in str(error), f"the error does not name the file: {error}")
        return valid, str(error).partition(":")[2][-40:]
    return True, "read"


@cache
def _keys_path() -> Path:
    memory = Path("/dev/shm")  # noqa: S108 — a file system in memory, if there is one: many files are written
    return Path(tempfile.mkdtemp(prefix="penstock-fuzz-", dir=memory if memory.is_dir() else None)) / "keys.json"


def check_keys(data: bytes) -> Verdict:
    """The file of keys is read, or an error says that it is not what was written."""
    path = _keys_path()
    path.write_bytes(data)
    try:
        rows = FileKeyStore(path).read().keys
    except InputError as error:
        return "Expected" in str(error) or "unknown field" in str(error), str(error)[-60:]
    return True, len(rows)


# ── seeds ─────────────────────────────────────────────────────────────────────────────────────────

ASKED = b'{"model":"replay/text","messages":[{"role":"user","content":"hi"}],"max_tokens":9,"stream":true}'


def _post(path: bytes, body: bytes, *more: bytes) -> bytes:
    head = [b"POST %b HTTP/1.1" % path, b"host: 127.0.0.1:4480", b"content-type: application/json", *more]
    return b"\r\n".join([*head, b"content-length: %d" % len(body), b"", body])


REQUESTS: tuple[bytes, ...] = (
    _post(b"/v1/chat/completions", ASKED), _post(b"/v1/messages", ASKED, b"anthropic-version: 2023-06-01", b"x-api-key: k"),
    _post(b"/v1/messages", ASKED.replace(b"true", b"false")), _post(b"/v1/responses", b'{"model":"replay/tools","input":"hi"}'),
    _post(b"/v1beta/models/replay/text:generateContent", b'{"contents":[{"parts":[{"text":"hi"}]}]}'),
    _post(b"/v1/messages/count_tokens", ASKED), _post(b"/api/chat", ASKED), _post(b"/v1/completions", b'{"model":"replay/text","prompt":"a"}'),
    _post(b"/vscode/count", b'{"model":"replay/text","items":["a"]}'), _post(b"/v1/embeddings", b'{"model":"x","input":"a"}'),
    b"GET /v1/models HTTP/1.1\r\nhost: localhost\r\n\r\nGET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
    b"GET /v1/models?limit=2 HTTP/1.0\r\nhost: localhost\r\norigin: http://evil.example\r\n\r\n",
    b"OPTIONS /v1/messages HTTP/1.1\r\nhost: localhost\r\norigin: http://localhost\r\naccess-control-request-method: POST\r\n\r\n",
    b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\nauthorization: Bearer x\r\n\r\n"
    b"%x\r\n%b\r\n0\r\n\r\n" % (len(ASKED), ASKED),
)  # fmt: skip
LINES = (
    b"content-length: 1", b"transfer-encoding: chunked", b"connection: close", b"expect: 100-continue", b"content-encoding: gzip",
    b"upgrade: websocket", b"authorization: Bearer x", b"x-api-key: ", b"host: evil.example", b"accept: text/event-stream", b"origin: null",
    b"replay/", b'"stream":true', b'"stream":false', b"replay/tools", b"replay/reasoning", b"/v1/", b"%00", b"x-penstock-key: \xff",
)  # fmt: skip
CONFIGS: tuple[bytes, ...] = (
    b'[serve]\nhost = "127.0.0.1"\nport = 4480\n[access]\nhosts = ["a"]\norigins = ["http://a"]\n[keys.ann]\nhash = "sha256:00"\n',
    b'[providers.mine]\nlike = "openai"\nbase_url = "http://127.0.0.1:1/v1"\nkey = "made-up"\nmodels = ["a", "b"]\nheaders = { x-a = "b" }\n',
    b'[aliases]\nsmart = ["anthropic/claude", "openai/gpt"]\n[features]\ncontext_management = true\n[journal]\npath = "off"\n',
    b'[providers.x]\nfields = { has = ["chat"], endpoints = { chat = { path = "/p", protocol = "uistream" } } }\n[log]\nlevel = "debug"\n',
    b'[keys.bob]\nenv = "BOB"\nmodels = ["openai/*"]\nlimits = { requests = 5, window = 60 }\n[record]\npath = "x"\n[state]\npath = "memory"\n',
)  # fmt: skip
KEYS: tuple[bytes, ...] = (
    b'{"ann":{"hash":"sha256:00","models":["*"],"inspect":"all"},"bob":{"hash":"sha256:01","limits":{}}}', b"{}",
)  # fmt: skip


def load_request() -> tuple[Sequence[bytes], Mutator, Check]:
    return REQUESTS, LinesMutator(LINES, b"\r\n"), check_request


def load_message() -> tuple[Sequence[bytes], Mutator, Check]:
    first = b'{"type":"response.create","model":"replay/text","input":"hi"}'
    made = [msgspec.json.decode(body) for body in bodies("responses")]
    rows = [{**body, "type": "response.create", "model": "replay/text"} for body in made]
    seeds = [first, *map(msgspec.json.encode, rows), b'{"type":"response.cancel"}', first.replace(b"hi", b"x", 1)]
    return seeds, JsonMutator(seeds), check_message


def load_config() -> tuple[Sequence[bytes], Mutator, Check]:
    return (
        CONFIGS,
        LinesMutator((b"= ", b'"', b"[", b"]", b"{", b"}", b"true", b"[[x]]", b"'''", b'"""', b"a.b.c = 1")),
        check_config,
    )


def targets() -> list[Target]:
    """All targets of this module."""
    return [
        Target("http-request", "a whole head is read by the server", load_request),
        Target("websocket-message", "a response is begun", load_message),
        Target("config-file", "the input is TOML", load_config),
        Target("keys-file", "the input is JSON", lambda: (KEYS, JsonMutator(KEYS), check_keys)),
    ]
