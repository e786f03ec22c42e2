"""Header fields against h11, which has its own idea of RFC 9110: what a client sends is refused, or read as it was meant.

What comes from a configuration is refused with the place of what is wrong, never with the value.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.client import RequestOptions, SyncClient
from penstock.errors import InputError
from penstock.gateway import Account, Config
from tests.support.gateway import read_config
from tests.support.raw_upstream import raw_upstream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.raw_upstream import RawUpstream

# docs/limits.md
MAX_HEADER_NAME, MAX_HEADER_VALUE, MAX_HEADERS, MAX_REQUEST_HEAD = 256, 16 * 1024, 128, 64 * 1024
MANAGED = (
    "connection", "content-length", "expect", "host", "keep-alive", "proxy-connection", "te", "trailer",
    "transfer-encoding", "upgrade",
)  # fmt: skip
TEXTS = st.one_of(
    st.text(max_size=12), st.sampled_from(["x", "a b", "x\r\ny: z", " x", "x ", "\t", "é", "content-length", "x-a"])
)


@contextmanager
def asking() -> Iterator[tuple[SyncClient, RawUpstream]]:
    with raw_upstream() as up:
        provider = Account(
            like="openai-compatible", base_url=f"{up.url}/v1", key="sk-1", fields={"has": ["chat"]},
            options={"proxy": "none"},
        )  # fmt: skip
        with SyncClient(Config(providers={"up": provider}, retries=0)) as client:
            yield client, up


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[SyncClient, RawUpstream]]:
    with asking() as found:
        yield found


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(headers=st.dictionaries(TEXTS.map(str.lower), TEXTS, max_size=4))
def test_headers_are_refused_or_read_back_as_they_were_meant(
    both: tuple[SyncClient, RawUpstream], headers: dict[str, str]
) -> None:
    client, up = both
    before, size = len(up.requests), len(up.raw)
    try:
        client.chat("up/m", "Hi.", options={"headers": headers})
    except InputError:
        assert headers
        assert len(up.raw) == size, "a part of it was sent"
        return
    assert up.errors == []
    [request] = up.requests[before:]
    found = dict(request.headers)
    assert {name: found.get(name, "") for name in headers} == headers  # without a value, a header is not sent
    assert len(request.headers) == len(found), "no name is sent twice"


REFUSED = {
    "no name": ("", "x", "'' is not a header name"),
    "space in a name": ("a b", "x", "'a b' is not a header name"),
    "colon in a name": ("a:", "x", "'a:' is not a header name"),
    "letters of others in a name": ("ä", "x", "'ä' is not a header name"),
    "long name": ("a" * (MAX_HEADER_NAME + 1), "x", "is not a header name"),
    "line break": ("a", "secret\r\nb: c", "headers: the value of 'a' has a line break at position 7"),
    "line feed": ("a", "secret\nb: c", "headers: the value of 'a' has a line break at position 7"),
    "nul": ("a", "secret\0", "headers: the value of 'a' has a control character at position 7"),
    "outside ASCII": ("a", "secreté", "headers: the value of 'a' has a character outside ASCII at position 7"),
    "space before": ("a", " secret", "headers: the value of 'a' begins or ends with a space"),
    "tab behind": ("a", "secret\t", "headers: the value of 'a' begins or ends with a space"),
    "long": ("a", "secret" * MAX_HEADER_VALUE, "headers: the value of 'a' is too long"),
}


def problem(**options: Any) -> str:
    """Why options are refused; empty if they are not."""
    try:
        RequestOptions.read(options)
    except InputError as error:
        return str(error)
    return ""


def test_a_refusal_names_the_place_and_not_the_value() -> None:
    for name, value, words in REFUSED.values():
        found = problem(headers={name: value})
        assert words in found
        assert "secret" not in found


def test_what_frames_a_message_cannot_be_chosen() -> None:
    names = [spelt for name in MANAGED for spelt in (name, name.upper(), name.title())]
    assert [name for name in names if "is set by the HTTP library" not in problem(headers={name: "1"})] == []


def test_the_limits_of_headers_are_exact(both: tuple[SyncClient, RawUpstream]) -> None:
    good = {"x-a": "", "X-B": "a\tb", "accept": "text/event-stream, application/json", "!#$%&'*+-.^_`|~": "~ !"}
    assert problem(headers=good) == ""
    assert problem(headers={"a" * MAX_HEADER_NAME: "b" * MAX_HEADER_VALUE}) == ""
    assert problem(headers={f"x-{number}": "" for number in range(MAX_HEADERS)}) == ""
    assert f"at most {MAX_HEADERS}" in problem(headers={f"x-{number}": "" for number in range(MAX_HEADERS + 1)})
    client, up = both
    before = len(up.requests)
    with pytest.raises(InputError, match=f"at most {MAX_REQUEST_HEAD}"):
        client.chat("up/m", "Hi.", options={"headers": {f"x-{number}": "a" * 16_000 for number in range(5)}})
    assert len(up.requests) == before


def test_a_key_may_have_space_around_it_and_a_service_account_line_breaks() -> None:
    assert problem(key=" sk-1\n") == ""
    assert problem(key='{\n "type": "service_account"\n}') == ""
    assert "key has a line break at position 3" in problem(key="sk\n1")
    assert "key has a character outside ASCII at position 4" in problem(key="schön")


ADDRESSES = {
    "http://127.0.0.1:9000/v1?a=b": "",
    "HTTPS://[::1]:8000": "",
    "https://user:secret@proxy.example:3128": "",
    "https://bücher.example/v1": "",
    "ftp://x": "does not begin with http:// or https://",
    "x": "does not begin with http:// or https://",
    "http://": "has no valid host",
    "http://a<b/": "has no valid host",
    "http://a:99999/": "has a host or port that is not valid",
    "http://[::1/": "has a host or port that is not valid",
    "http://x/secret\r\nb": "has a line break at position 16",
    "http://x/secret\tb": "has a control character at position 16",
    "http://x/a b": "has a space at position 11",
    "http://x/secret#b": "has a fragment",
}


def test_addresses() -> None:
    for url, wanted in ADDRESSES.items():
        found = ""
        try:
            read_config(providers={"up": {"like": "openai-compatible", "base_url": url}})
        except InputError as error:
            found = str(error)
        assert f"base_url {wanted}" in found if wanted else not found, (url, found)
        assert "secret" not in found
