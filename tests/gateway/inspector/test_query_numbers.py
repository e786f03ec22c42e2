"""Numbers in query strings: finite and in range, or a 400 that names the parameter. Never a 500, on any GET route."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock._gateway.endpoints import LATEST_TIME, MAX_SAFE_INTEGER, query_decimal, query_integer
from penstock.errors import InputError
from tests.support.client_requests import ask, post
from tests.support.inspector import inspected

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.inspector import Inspected


ODD = (
    "nan", "NaN", "inf", "-inf", "Infinity", "1e999", "-1", "-0", "1e308", "9" * 400, "9" * 5000, "1_000", "0x10", " 1",
    "", "٣", "\uff11", "½", "\x00", "-", ".", "1.5", "e5", "é", "\ud7ff", "true", "null", "%",
)  # fmt: skip
NUMBERS = {
    "inspector/usage": ("since", "until", "bucket"), "inspector/tokens": ("since",),
    "inspector/turns": ("upto", "offset", "limit"), "inspector/live": ("after",), "inspector/complete": ("at",), "inspector/turns/{turn}": ("frame", "output"),
    "v1/responses/{response}": ("starting_after",), "v1/responses/{response}/input_items": ("limit",),
}  # fmt: skip
NAMES = sorted({name for names in NUMBERS.values() for name in names} | {
    "q", "as", "by", "name", "protocol", "stream", "after", "order", "key", "alt", "pageSize", "pageToken", "x",
})  # fmt: skip
OTHERS = (
    "healthz", "readyz", "metrics", "", "v1/models", "v1/models/openai-chat/text", "v1beta/models", "api/tags",
    "api/version", "v1/responses/none", "v1/responses/none/input_items",
)  # fmt: skip


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Inspected, httpx.Client, dict[str, str]]]:
    with inspected() as running, httpx.Client(base_url=running.url, timeout=20, trust_env=False) as client:
        reply = ask(running.url, "openai-chat", "openai-chat/text")
        stored = post(f"{running.url}/v1/responses", json={"model": "openai-chat/text", "input": "hello"})
        yield running, client, {"turn": reply.headers["x-request-id"], "response": stored.json()["id"]}


def status_of(client: httpx.Client, path: str) -> tuple[int, str]:
    """The status, and the text of a refusal; streams are not read."""
    with client.stream("GET", path) as reply:
        return reply.status_code, reply.read().decode() if reply.status_code >= 400 else ""


@pytest.mark.parametrize(("path", "name"), [(path, name) for path, names in NUMBERS.items() for name in names])
def test_odd_numbers_are_refused_by_name(
    served: tuple[Inspected, httpx.Client, dict[str, str]], path: str, name: str
) -> None:
    _, client, ids = served
    for value in ODD:
        status, said = status_of(client, f"/{path.format(**ids)}?{name}={quote(value)}")
        assert status in {200, 400}, (value, said)
        assert status == 200 or name in said, (value, said)
    for value in ("nan", "inf", "-5", "9" * 5000, "٣"):
        assert status_of(client, f"/{path.format(**ids)}?{name}={quote(value)}")[0] == 400, value


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_query_is_an_internal_error(
    served: tuple[Inspected, httpx.Client, dict[str, str]], data: st.DataObject
) -> None:
    running, client, ids = served
    routes = [path for method, path in running.inspector._router._routes if method == "GET"]
    assert len(routes) > 10
    known = [f"inspector/{route.replace('*', ids['turn'], 1).replace('*', '0')}" for route in routes]
    stored = [path.format(**ids) for path in NUMBERS]
    path = data.draw(st.sampled_from([*known, *stored, *OTHERS]))
    values = st.sampled_from(ODD) | st.text(max_size=20) | st.floats().map(str) | st.integers().map(str)
    query = data.draw(st.lists(st.tuples(st.sampled_from(NAMES), values), max_size=4))
    status, said = status_of(client, f"/{path}?{urlencode(query, errors='replace')}")
    assert status < 500, said


@pytest.mark.parametrize("name", ["since", "until", "bucket"])
def test_the_latest_times_have_a_date_or_are_refused(
    served: tuple[Inspected, httpx.Client, dict[str, str]], name: str
) -> None:
    """A calendar ends with the year 9999; a period of usage is at least a second long."""
    _, client, _ = served
    for value in (LATEST_TIME - 0.5, LATEST_TIME):
        assert status_of(client, f"/inspector/usage?{name}={value}")[0] == 200, value
    for value in (LATEST_TIME + 0.5, LATEST_TIME + 1, LATEST_TIME + 2, LATEST_TIME + 3):
        status, said = status_of(client, f"/inspector/usage?{name}={value}")
        assert (status, f"{name}: expected a number from 0 to {LATEST_TIME:.0f}" in said) == (400, True), (value, said)
    times = f"since={LATEST_TIME}&until={LATEST_TIME}"
    period = client.get(f"/inspector/usage?{times}").json()["period"]
    assert period == "since:9999-12-31T23:59:58Z until:9999-12-31T23:59:59Z"


NUMERIC = st.text("0123456789+-.eE_ naif٣", max_size=30) | st.floats().map(repr) | st.integers().map(str)


@given(NUMERIC)
def test_a_number_is_finite_and_in_range(said: str) -> None:
    value, refused = read(lambda: query_decimal({"x": said}, "x", 7.0))
    assert value is not None or refused.startswith("x: expected a number from 0 to ")
    if value is not None:
        assert math.isfinite(value)
        assert 0 <= value <= LATEST_TIME
        assert value == (float(said) if said else 7.0)


@given(NUMERIC)
def test_a_whole_number_is_in_range(said: str) -> None:
    value, refused = read(lambda: query_integer({"x": said}, "x", 7, least=-1))
    assert value is not None or refused.startswith("x: expected a whole number from -1 to ")
    if value is not None:
        assert -1 <= value <= MAX_SAFE_INTEGER
        assert value == (int(said) if said else 7)


def read(number: Callable[[], float]) -> tuple[float | None, str]:
    """The number, or why there is none."""
    try:
        return number(), ""
    except InputError as error:
        return None, str(error)
