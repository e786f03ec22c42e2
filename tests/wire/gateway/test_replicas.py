"""Three gateway processes behind nginx that share PostgreSQL and Redis: limits, revocation, kills, outages, addresses."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import deque
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from itertools import cycle
from typing import TYPE_CHECKING, Any

import httpx
import psycopg
import pytest
from websockets.exceptions import ConnectionClosed

from penstock import events as ev
from penstock.testing import scripted
from tests.cli.command_runner import environment, inside
from tests.conftest import new_database
from tests.support.budget_requests import (
    MODEL,
    Gate,
    Meter,
    OpenStream,
    ask,
    ask_all,
    auth,
    chat,
    open_stream,
    reply_to,
    secret,
    until_true,
)
from tests.support.client_requests import read, told
from tests.support.gateway import gateway, hash_key
from tests.support.openresponses import socket
from tests.support.process import LIMIT, PROXY, Cluster, Replicas, open_store
from tests.support.resumed_streams import STAYS, begin, first_event, resume
from tests.support.servers import PostgresServer, RedisServer

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from penstock.testing import ReceivedRequest, Reply

SLOT_TIMEOUT = 10.0  # seconds after which the slots of a killed process are free: documented
REDIS_AWAY = SLOT_TIMEOUT  # seconds: no slot is left that was not renewed
POSTGRES_AWAY = 3.0
SLOTS = 8  # requests at once: more than one after the other, whose slots are freed a moment after their answers
UNIT = 10_000  # micro-dollars of one token of output
USAGE = ev.Usage(input=1000, output=200)
TURN = 1200  # tokens of USAGE
SLACK = 4.0  # seconds, for a busy machine
SHORT = chat(max_tokens=200)
RESPONSES = "/v1/responses"
CLIENT, FORGED = "127.0.0.5", "203.0.113.9"
PLANTED = "hunter2-planted"  # PostgreSQL's password: it asks for none, so any will do
CONFIG = """
retries = 0
serve.drain = 2
features.clamp_output = true
stores.outage = "{outage}"
stores.redis_timeout = 30  # a busy machine is not an outage; a stopped server is noticed at once
[access]
metrics = "open"
trusted_proxies = {proxies}
[keys.root]
hash = "{root}"
role = "admin"
[prices.models]
"openai-chat/*" = {{ input = 0, output = 10_000 }}
[providers.openai-chat]
base_url = "{url}/v1"
key = "sk-up-000000"
like = "openai-compatible"
fields = {{ has = ["chat"] }}
"""


@pytest.fixture(scope="module")
def cluster(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three replicas. The last one is `fail-open`, and does not trust nginx."""
    with ExitStack() as stack:
        up = stack.enter_context(scripted("unused"))
        server = stack.enter_context(closing(RedisServer()))
        server.start()
        database = stack.enter_context(new_database(postgres))
        policies: list[tuple[str, list[str]]] = [("fail-closed", [PROXY]), ("fail-closed", [PROXY]), ("fail-open", [])]
        configs = [
            CONFIG.format(outage=outage, proxies=proxies, root=hash_key(secret("root")), url=up.url)
            for outage, proxies in policies
        ]
        env = {
            "PENSTOCK_POSTGRES_URL": database.replace("penstock@", f"penstock:{PLANTED}@"),
            "PENSTOCK_REDIS_URL": server.url,
        }
        replicas = stack.enter_context(closing(Replicas(tmp_path_factory.mktemp("replicas"), configs, env)))
        replicas.start()
        store = stack.enter_context(closing(open_store(database)))
        yield (made := Cluster(up, replicas, server, postgres, database, store))
        for running in made.gateways:  # nothing is left over
            until_true(lambda running=running: made.metric(running, "penstock_open_streams") == 0)  # type: ignore[misc]


# ── limits ────────────────────────────────────────────────────────────────────────────────────────


def spend_all(cluster: Cluster, name: str, body: dict[str, Any]) -> int:
    """Send 120 requests at once that reserve 2 of 100 units each, then more until all are refused. Returns the sum."""
    meter = Meter(cycle((1, 3, 5)))
    gate = Gate(120, meter.usage)
    cluster.up.script(gate.answer)
    statuses = ask_all([cluster.url] * 120, name, body, gate)
    assert (statuses.count(200), statuses.count(429)) == (50, 70)
    while 200 in statuses:
        until_true(lambda: cluster.used(name, "cost") == meter.spent * UNIT)
        statuses = ask_all([cluster.url] * 20, name, body)
        assert set(statuses) <= {200, 429}
    return meter.spent


@pytest.mark.parametrize("limit", ["given", "clamped"])
def test_parallel_requests_spend_the_budget_and_no_more(cluster: Cluster, limit: str) -> None:
    cluster.add_key(limit, limits={"day_cost": 1.0}, max_output=0 if limit == "given" else 2)
    body = chat(stream=True, max_tokens=2) if limit == "given" else chat(stream=True)
    assert 100 - 2 < spend_all(cluster, limit, body) <= 100


def test_without_an_output_limit_only_running_requests_overspend(
    cluster: Cluster, record_property: Callable[[str, object], None]
) -> None:
    cluster.add_key("unclamped", limits={"day_cost": 1.0}, max_output=2)
    cluster.replicas.reload("clamp_output = true", "clamp_output = false")
    try:
        spent = spend_all(cluster, "unclamped", chat(stream=True))
    finally:
        cluster.replicas.reload("clamp_output = false", "clamp_output = true")
    assert 100 - 2 < spent <= 50 * 5  # those that ran at once; nothing was let in after them
    record_property(
        "table", f"120 parallel requests without an output limit, not clamped: {spent - 100} of 100 units overspent"
    )


def test_requests_per_minute_are_exact_to_one(cluster: Cluster) -> None:
    cluster.add_key("minute", limits={"requests": 40})
    times: list[float] = []

    def answer(seen: ReceivedRequest) -> Reply:
        times.append(time.monotonic())
        return reply_to(seen, USAGE)

    cluster.up.script(answer)
    statuses = [status for _ in range(3) for status in ask_all([cluster.url] * 60, "minute", chat())]
    assert statuses.count(200) == len(times) >= 39
    assert set(statuses) == {200, 429}
    for began in times:
        assert sum(began <= at < began + 60 for at in times) <= 41
    refused = ask(cluster.url, "minute", chat())
    assert refused.status_code == 200 or 0 < float(refused.headers["retry-after"]) <= 60


# ── revocation ────────────────────────────────────────────────────────────────────────────────────


def test_a_revoked_key_is_refused_by_every_replica_within_a_second(
    cluster: Cluster, record_property: Callable[[str, object], None]
) -> None:
    cluster.add_key("revoked")
    with cluster.hold_streams(USAGE), ExitStack() as stack:
        bases = [running.base for running in cluster.gateways]
        streams = [stack.enter_context(open_stream(base, "revoked")) for base in (*bases, cluster.url)]
        sockets = [stack.enter_context(socket(base, **auth("revoked"))) for base in (*bases, cluster.url)]
        revoked = httpx.delete(f"{cluster.url}/admin/keys/revoked", headers=auth("root"), timeout=60)
        began = time.monotonic()
        assert revoked.is_success, revoked.text
        for base in bases:
            until_true(lambda base=base: ask(base, "revoked", SHORT).status_code == 401)  # type: ignore[misc]
        ends = [stream.read() for stream in streams]
        codes = [close_code(ws) for ws in sockets]
        seconds = time.monotonic() - began
        assert seconds < 1 + SLACK
        record_property("table", f"a revoked key was refused by three replicas after {seconds:.2f} s")
        assert all("the gateway key 'revoked' was revoked" in end for end in ends)
        assert codes == [1008] * 4


def close_code(ws: Any) -> int:
    with pytest.raises(ConnectionClosed) as raised:
        deque(iter(lambda: ws.raw.recv(timeout=LIMIT), None))
    assert raised.value.rcvd is not None
    return int(raised.value.rcvd.code)


# ── a process that is killed ──────────────────────────────────────────────────────────────────────


def test_a_killed_replica_takes_nothing_from_the_others(cluster: Cluster) -> None:
    cluster.add_key("killed", limits={"concurrent": 6, "day_tokens": 100_000})
    cluster.add_key("unlimited")
    before = [cluster.metric(running, "penstock_turns_total") for running in cluster.gateways]
    with cluster.hold_streams(USAGE) as gate, ExitStack() as stack:
        settled = [ask(cluster.url, "unlimited", SHORT) for _ in range(30)]
        streams = [stack.enter_context(open_stream(cluster.url, "killed")) for _ in range(6)]
        assert ask(cluster.url, "killed", SHORT).status_code == 429
        reserved = cluster.used("killed", "tokens") // 6
        victim = cluster.replica_of(streams[0].reply)
        wait_until_journaled(cluster, victim, before[victim], settled)
        stack.callback(cluster.replicas.restart, victim)
        first, event = begin(cluster.gateways[victim - 1].base, "openai-chat", MODEL, STAYS | auth("unlimited"))
        cluster.gateways[victim].stop(signal.SIGKILL)
        assert cluster.longest_lease("killed") <= SLOT_TIMEOUT
        lost = [stream for stream in streams if cluster.replica_of(stream.reply) == victim]
        others = [stream for stream in streams if stream not in lost]
        assert others
        for stream in lost:
            with pytest.raises(httpx.TransportError):
                stream.read()
        assert all(stream.is_running() for stream in others)
        until_true(lambda: ask(cluster.url, "killed", SHORT).status_code == 200)
        until_true(lambda: cluster.used("killed", "concurrent") == len(others))
        others += [stack.enter_context(open_stream(cluster.url, "killed")) for _ in lost]
        assert ask(cluster.url, "killed", SHORT).status_code == 429
        gate.set()
        assert all(is_whole(stream) for stream in others)
        rest = resume(cluster.url, "openai-chat", event, **auth("unlimited")).content
        whole = resume(cluster.url, "openai-chat", first_event(event), **auth("unlimited")).content
    assert first + rest == whole
    assert told(read("openai-chat", whole))[2] == "stop"
    cluster.wait_for_rows([*(reply.headers["x-request-id"] for reply in settled), *(stream.id for stream in others)])
    # What the killed process had reserved stays charged; the others and the short turn are settled.
    until_true(lambda: cluster.used("killed", "tokens") == len(lost) * reserved + (len(others) + 1) * TURN)


def is_whole(stream: OpenStream) -> bool:
    rest = stream.read()
    return "[DONE]" in rest and '"error"' not in rest


def wait_until_journaled(cluster: Cluster, number: int, before: float, settled: list[httpx.Response]) -> None:
    """Wait until a replica has counted its turns, and no row of the journal waits: the writer's pause is over."""
    own = sum(cluster.replica_of(reply) == number for reply in settled)
    running = cluster.gateways[number]
    until_true(lambda: cluster.metric(running, "penstock_turns_total") >= before + own)
    until_true(lambda: cluster.metric(running, "penstock_journal_waiting") == 0)


# ── a store that is away ──────────────────────────────────────────────────────────────────────────


@dataclass
class OutageLog:
    """What the gateways answered while a server was away: statuses by gateway, ids of turns that were answered."""

    statuses: list[list[int]] = field(default_factory=lambda: [[], [], []])
    codes: set[str] = field(default_factory=set[str])
    ids: list[str] = field(default_factory=list[str])

    def ask_each(self, cluster: Cluster, name: str) -> None:
        for number, running in enumerate(cluster.gateways):
            reply = ask(running.base, name, SHORT)
            self.statuses[number].append(reply.status_code)
            if reply.is_success:
                self.ids.append(reply.headers["x-request-id"])
            else:
                self.codes.add(reply.json()["error"]["code"])


def outlast(
    cluster: Cluster,
    server: RedisServer | PostgresServer,
    name: str,
    streams: list[OpenStream],
    meanwhile: Callable[[], None],
) -> OutageLog:
    """Stop a server for a while. Meanwhile streams go on, and turns are asked for."""
    log = OutageLog()
    server.stop()
    ends = time.monotonic() + (REDIS_AWAY if server is cluster.redis else POSTGRES_AWAY)
    try:
        log.ask_each(cluster, name)
        meanwhile()
        while time.monotonic() < ends:
            log.ask_each(cluster, name)
            assert all(stream.is_running() for _ in range(8) for stream in streams)
    finally:
        server.start()
    return log


def test_redis_is_away_for_a_while(cluster: Cluster) -> None:
    cluster.add_key("redis-away", limits={"concurrent": SLOTS, "day_tokens": 1_000_000})
    with cluster.hold_streams(USAGE) as gate, ExitStack() as stack:
        streams = [stack.enter_context(open_stream(running.base, "redis-away")) for running in cluster.gateways]

        def serve_without_limits() -> None:
            assert [ask(running.base, "root", SHORT).status_code for running in cluster.gateways] == [200] * 3

        log = outlast(cluster, cluster.redis, "redis-away", streams, serve_without_limits)
        assert [set(statuses) for statuses in log.statuses] == [{503}, {503}, {200}]
        assert log.codes == {"limits_unavailable"}
        assert cluster.metric(cluster.gateways[2], "penstock_limits_unchecked") >= len(log.statuses[2])
        finish_after_outage(cluster, "redis-away", streams, log, gate)


def test_postgres_is_away_for_a_while(cluster: Cluster) -> None:
    """Known keys hold, as long as they are configured to."""
    one, two, _ = cluster.gateways
    cluster.add_key("postgres-away", limits={"concurrent": SLOTS, "day_tokens": 1_000_000})
    with cluster.hold_streams(USAGE) as gate, ExitStack() as stack:
        stores = {"postgres": cluster.database, "keys_hold": 0.5}
        strict, _ = stack.enter_context(gateway(stores=stores, journal=None, state=None))
        assert ask_replay(strict.url, "postgres-away") == 200
        streams = [stack.enter_context(open_stream(running.base, "postgres-away")) for running in cluster.gateways]
        stored: list[str] = []

        def hold_back() -> None:
            until_true(lambda: all(cluster.metric(one, "penstock_journal_waiting") > 0 for one in cluster.gateways))
            reply = ask(
                one.base, "postgres-away", {"model": MODEL, "input": "Hi.", "max_output_tokens": 200}, RESPONSES
            )
            stored.extend((reply.json()["id"], reply.headers["x-request-id"]))
            missing = cluster.get(one, f"{RESPONSES}/resp_unknown", "postgres-away")
            assert (missing.status_code, "retry-after" in missing.headers) == (503, True)
            until_true(lambda: ask_replay(strict.url, "postgres-away") != 200)
            with httpx.Client(base_url=one.base, timeout=60, headers=auth("root")) as http:
                for path in ("/admin/audit", "/admin/usage"):
                    check_store_is_away(http.get(path))
                check_store_is_away(http.post("/admin/keys", json={"name": "late"}))

        log = outlast(cluster, cluster.postgres, "postgres-away", streams, hold_back)
        assert [set(statuses) for statuses in log.statuses] == [{200}] * 3
        until_true(lambda: cluster.get(two, f"{RESPONSES}/{stored[0]}", "postgres-away").is_success)
        until_true(lambda: ask_replay(strict.url, "postgres-away") == 200)
        log.ids.append(stored[1])
        finish_after_outage(cluster, "postgres-away", streams, log, gate)
    assert all("rows are held back" in running.said for running in cluster.gateways)
    assert not any(word in running.said for running in cluster.gateways for word in (PLANTED, "Traceback"))


def ask_replay(url: str, name: str) -> int:
    return ask(url, name, chat(model="replay/text")).status_code


def check_store_is_away(reply: httpx.Response) -> None:
    assert (reply.status_code, reply.json()["error"]["code"]) == (503, "store_unavailable")
    assert reply.headers["retry-after"] == "1"


def finish_after_outage(
    cluster: Cluster, name: str, streams: list[OpenStream], log: OutageLog, gate: threading.Event
) -> None:
    """Limits hold again, the streams end whole, and every turn is charged and in the journal, once."""
    until_true(lambda: cluster.used(name, "concurrent") == len(streams))  # the leases are renewed
    with ExitStack() as stack:
        streams = [
            *streams,
            *(stack.enter_context(open_stream(cluster.url, name)) for _ in range(SLOTS - len(streams))),
        ]
        assert [ask(running.base, name, SHORT).status_code for running in cluster.gateways] == [429] * 3
        gate.set()
        assert all(is_whole(stream) for stream in streams)
        ids = [*log.ids, *(stream.id for stream in streams)]
    until_true(lambda: cluster.used(name, "tokens") == len(ids) * TURN)
    cluster.wait_for_rows(ids)
    for running in cluster.gateways:
        until_true(lambda running=running: cluster.metric(running, "penstock_journal_waiting") == 0)  # type: ignore[misc]
        assert cluster.metric(running, "penstock_journal_lost") == cluster.metric(running, "penstock_limits_lost") == 0


# ── what is shared ────────────────────────────────────────────────────────────────────────────────


def penstock(cluster: Cluster, folder: Path, *words: str) -> str:
    """Runs a command with the same stores."""
    done = inside(*words, PENSTOCK_POSTGRES_URL=cluster.database, PENSTOCK_DATA=str(folder), NO_COLOR="1")
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def test_gateways_share_keys_journal_and_responses(cluster: Cluster, tmp_path: Path) -> None:
    printed = penstock(cluster, tmp_path, "keys", "add", "alice")
    key = next(word for word in printed.split() if word.startswith("pk-penstock-"))
    one, two, _ = (
        httpx.Client(base_url=running.base, timeout=60, headers={"authorization": f"Bearer {key}"})
        for running in cluster.gateways
    )

    def respond(http: httpx.Client, **more: Any) -> httpx.Response:
        return http.post("/v1/responses", json={"model": "replay/text", "input": "Hi.", **more})

    with one, two:
        until_true(lambda: respond(one).status_code == 200)
        first = respond(one)
        id_ = first.json()["id"]
        until_true(lambda: two.get(f"/v1/responses/{id_}").status_code == 200)
        until_true(lambda: respond(two).status_code == 200)
        second = respond(two, previous_response_id=id_)
        assert second.status_code == 200, second.text
        cluster.wait_for_rows([first.headers["x-request-id"], second.headers["x-request-id"]])
        assert two.get("/inspector/usage?by=key").json()["total"]["requests"] >= 2
        assert "alice" in penstock(cluster, tmp_path, "usage", "--by", "key")
        penstock(cluster, tmp_path, "keys", "revoke", "alice")
        for http in (one, two):
            until_true(lambda http=http: respond(http).status_code == 401)  # type: ignore[misc]
    files = [path.name for running in cluster.gateways for path in running.data.glob("*.sqlite")]
    assert not {"journal.sqlite", "state.sqlite"} & set(files)


def test_a_gateway_does_not_start_without_its_database(tmp_path: Path) -> None:
    (tmp_path / "penstock.toml").write_text("[stores]\npostgres = 'postgresql://me:hunter2-planted@127.0.0.1:1/x'\n")
    command = [sys.executable, "-m", "penstock", "serve", "--port", "0", "--config", str(tmp_path / "penstock.toml")]
    env = environment(PENSTOCK_DATA=str(tmp_path))
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False, timeout=LIMIT)
    assert done.returncode != 0
    assert "PostgreSQL at 127.0.0.1:1/x" in done.stderr
    assert "hunter2" not in done.stderr
    assert "Traceback" not in done.stderr


# ── addresses ─────────────────────────────────────────────────────────────────────────────────────


def test_forwarded_addresses_in_the_access_log_come_from_trusted_proxies_only(cluster: Cluster) -> None:
    headers = auth("root") | {"x-forwarded-for": FORGED}
    url = f"{cluster.url}/v1/chat/completions"
    with (
        cluster.hold_streams(USAGE),
        httpx.Client(transport=httpx.HTTPTransport(local_address=CLIENT), timeout=60) as http,
    ):
        through = [http.post(url, json=SHORT, headers=headers) for _ in range(9)]
        direct = [
            httpx.post(f"{one.base}/v1/chat/completions", json=SHORT, headers=headers) for one in cluster.gateways
        ]
    expected = {reply.headers["x-request-id"]: "127.0.0.1" for reply in direct}
    for reply in through:
        number = cluster.replica_of(reply)
        expected[reply.headers["x-request-id"]] = PROXY if number == 2 else CLIENT
    assert set(expected.values()) == {"127.0.0.1", PROXY, CLIENT}

    def logged() -> dict[str, str]:
        lines = "".join(running.printed for running in cluster.gateways).splitlines(keepends=True)
        rows = [json.loads(line) for line in lines if line.endswith("\n")]
        return {row["id"]: row["address"] for row in rows}

    until_true(lambda: expected.keys() <= logged().keys())
    assert {name: logged()[name] for name in expected} == expected
    cluster.wait_for_rows(list(expected))
    with psycopg.connect(cluster.database) as connection:
        rows = str(connection.execute("SELECT * FROM penstock.turns").fetchall())
    assert not any(address in rows for address in (CLIENT, FORGED, PROXY))  # the journal has no addresses
