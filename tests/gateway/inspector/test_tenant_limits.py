"""No tenant takes all streams or all worker threads of the inspector."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from penstock._gateway.callers import Refusal
from penstock._inspector import file_inspector, tenant_limits, turn_list, turn_routes
from penstock._inspector.tenant_limits import StreamLimits, TenantWorkerSlots, current_tenant
from tests.support.client_requests import ask, get
from tests.support.event_feed import LIMIT, Reader, bearer, watching
from tests.support.gateway import hash_key
from tests.support.inspector import inspected

ANNA, BEN = "pk-penstock-anna0123456789", "pk-penstock-ben00123456789"
KEYS = {name: {"hash": hash_key(key), "inspect": "own"} for name, key in (("anna", ANNA), ("ben", BEN))}


def test_a_tenant_has_so_many_streams_and_leaves_some_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tenant_limits, "RESERVED_STREAMS", 2)
    limits = StreamLimits(most=6, most_of_tenant=3)
    first = [limits.open_stream("anna") for _ in range(3)]
    with pytest.raises(Refusal, match="3 pages with keys of this tenant") as refused:
        limits.open_stream("anna")
    assert (refused.value.status, refused.value.fault.retry_after) == (503, 5.0)
    limits.open_stream("ben")
    with pytest.raises(Refusal, match="too many pages"):  # ben has one, and two are reserved
        limits.open_stream("ben")
    limits.open_stream("carl")
    limits.open_stream(None)
    with pytest.raises(Refusal, match="too many pages"):
        limits.open_stream(None)
    first[0]()
    first[0]()  # counts once
    limits.open_stream(None)
    with pytest.raises(Refusal):
        limits.open_stream(None)


def test_callers_who_see_all_turns_have_all_streams() -> None:
    limits = StreamLimits(most=4, most_of_tenant=1)
    ends = [limits.open_stream(None) for _ in range(4)]
    for end in ends:
        end()
    assert not limits._open


def test_a_tenant_never_has_all_worker_threads() -> None:
    """It gets the threads that it left once they are free."""

    async def main() -> None:
        work, gate, begun = TenantWorkerSlots(), threading.Event(), threading.Semaphore(0)

        def block() -> bool:
            begun.release()
            return gate.wait(20)

        current_tenant.set("ben")
        waiting = [asyncio.create_task(work.run(block)) for _ in range(3 * file_inspector.MAX_WORKERS)]
        for _ in range(file_inspector.MAX_WORKERS - 1):
            assert await asyncio.to_thread(begun.acquire, timeout=10)
        current_tenant.set("anna")
        assert await work.run(lambda: "anna's") == "anna's"
        assert not begun.acquire(blocking=False)
        current_tenant.set(None)
        assert await work.run(lambda: "of all") == "of all"
        gate.set()
        assert all(await asyncio.gather(*waiting))
        assert not work._rooms

    asyncio.run(main())


def test_a_key_that_watches_much_leaves_feeds_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn_list, "MAX_LISTENERS", 3)
    monkeypatch.setattr(turn_list, "MAX_TENANT_LISTENERS", 2)
    monkeypatch.setattr(tenant_limits, "RESERVED_STREAMS", 1)
    with inspected(keys=KEYS) as gateway, watching(gateway.url, bearer(BEN)), watching(gateway.url, bearer(BEN)):
        refused = get(f"{gateway.url}/inspector/live", headers=bearer(BEN))
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
        assert "pages with keys of this tenant" in refused.json()["error"]["message"]
        with watching(gateway.url, bearer(ANNA)):
            pass


def test_work_is_done_for_the_tenant_of_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also that of a stream after its first event."""
    tenants: list[str | None] = []
    begun = threading.Semaphore(0)
    run = TenantWorkerSlots._run_in_room

    async def record(slots: TenantWorkerSlots, room: asyncio.Semaphore, *work: Any) -> Any:
        tenants.append(current_tenant.get())
        begun.release()
        return await run(slots, room, *work)

    monkeypatch.setattr(TenantWorkerSlots, "_run_in_room", record)
    with inspected(keys=KEYS) as gateway:
        seen = [get(f"{gateway.url}/inspector/turns", headers=bearer(key)).status_code for key in (ANNA, BEN)]
        assert (seen, tenants) == ([200, 200], ["anna", "ben"])
        with Reader(f"{gateway.url}/inspector/live?q=word", bearer(BEN)) as reader:
            reader.until(lambda: reader.named("turns"))
            headers = bearer(BEN)
            ask(gateway.url, "anthropic", "replay/text", headers=headers)
            assert all(begun.acquire(timeout=LIMIT) for _ in range(4))
        assert set(tenants[2:]) == {"ben"}


def test_so_many_traces_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that is closed makes room."""
    monkeypatch.setattr(turn_routes, "MAX_FOLLOWERS", 1)
    with inspected() as gateway, watching(gateway.url):
        name = ask(gateway.url, "anthropic", "openai-chat/text").headers["x-request-id"]
        url = f"{gateway.url}/inspector/turns/{name}/follow"
        for _ in range(3):  # one after another
            with Reader(url) as reader:
                reader.until(lambda reader=reader: reader.over)  # type: ignore[misc]
                assert reader.named("trace")
        monkeypatch.setattr(gateway.inspector.turns.followers, "_most", 0)
        refused = get(url)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
