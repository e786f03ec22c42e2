"""Header fields against h11, which has its own idea of RFC 9110: what we write is read back as the same fields."""

from __future__ import annotations

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock._http.header_fields import (
    MANAGED,
    check_header,
    check_headers,
    check_key,
    check_text,
    check_url,
    encode_headers,
    encode_request_head,
    encode_response_headers,
    response_header,
    unsafe_character,
)  # fmt: skip
from penstock._input_limits import MAX_HEADER_NAME, MAX_HEADER_VALUE, MAX_HEADERS, MAX_REQUEST_HEAD
from penstock.errors import InputError

BYTES = st.one_of(st.binary(max_size=12), st.sampled_from([b"x", b"a b", b"x\r\ny: z", b" x", b"x ", b"\t", b"\x80"]))
TEXTS = st.one_of(
    st.text(max_size=12), st.sampled_from(["x", "a b", "x\r\ny: z", " x", "x ", "\t", "é", "content-length"])
)


def read(data: bytes) -> tuple[h11.Request, bytes]:
    """The request that h11 reads, and what it leaves over."""
    parser = h11.Connection(h11.SERVER)
    parser.receive_data(data)
    event = parser.next_event()
    assert isinstance(event, h11.Request), event
    parser.next_event()
    return event, parser.trailing_data[0]


@given(headers=st.dictionaries(TEXTS, TEXTS, max_size=4), target=TEXTS, host=TEXTS, method=TEXTS)
def test_a_head_is_refused_or_read_back_as_it_was_meant(
    headers: dict[str, str], target: str, host: str, method: str
) -> None:
    for one in ("GET", method):
        try:
            head = encode_request_head(one, f"/{target}", host, headers)
        except InputError:
            continue
        found, rest = read(head + b"\r\n")
        assert (found.method, found.target, rest) == (one.encode(), f"/{target}".encode(), b"")
        said = [(b"host", host.encode()), *((name.lower().encode(), value.encode()) for name, value in headers.items())]
        assert list(found.headers) == said


@given(headers=st.dictionaries(TEXTS, TEXTS, max_size=4))
def test_headers_are_refused_or_read_back(headers: dict[str, str]) -> None:
    try:
        lines = encode_headers(headers)
    except InputError:
        assert headers
        return
    found, rest = read(b"GET / HTTP/1.1\r\nhost: x\r\n" + lines + b"\r\n")
    assert len(found.headers) == len(headers) + 1
    assert rest == b""


@given(fields=st.lists(st.tuples(BYTES, BYTES), max_size=4))
def test_response_headers_are_refused_or_read_back(fields: list[tuple[bytes, bytes]]) -> None:
    try:
        lines = encode_response_headers(fields)
    except InputError:
        assert fields
        return
    parser = h11.Connection(h11.CLIENT)
    parser.send(h11.Request(method="GET", target="/", headers=[("host", "x")]))
    parser.receive_data(b"HTTP/1.1 200 OK\r\n" + lines + b"\r\n")
    event = parser.next_event()
    assert isinstance(event, h11.Response)
    assert [(name, value) for name, value in event.headers] == [
        (name.lower(), value.strip(b" \t")) for name, value in fields
    ]


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


@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_names_the_place_and_not_the_value(case: str) -> None:
    name, value, words = REFUSED[case]
    with pytest.raises(InputError) as caught:
        check_header(name, value, "headers")
    assert words in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("name", sorted(MANAGED))
def test_what_frames_a_message_cannot_be_chosen(name: str) -> None:
    for spelt in (name, name.upper(), name.title()):
        with pytest.raises(InputError, match="is set by the HTTP library"):
            check_header(spelt, "1")


def test_good_headers_pass() -> None:
    check_headers({"x-a": "", "X-B": "a\tb", "accept": "text/event-stream, application/json", "!#$%&'*+-.^_`|~": "~ !"})


def test_too_many_or_too_much() -> None:
    with pytest.raises(InputError, match=f"at most {MAX_HEADERS}"):
        check_headers({f"x-{number}": "" for number in range(MAX_HEADERS + 1)}, "headers")
    with pytest.raises(InputError, match=f"at most {MAX_REQUEST_HEAD}"):
        encode_request_head("GET", "/", "x", {f"x-{number}": "a" * 16_000 for number in range(5)})


def test_a_key_may_have_space_around_it_and_a_service_account_line_breaks() -> None:
    check_key(" sk-1\n", "key")
    check_key('{\n "type": "service_account"\n}', "key")
    with pytest.raises(InputError, match="key has a line break at position 3"):
        check_key("sk\n1", "key")
    check_text("schlüssel", "key", ascii_only=False)
    assert unsafe_character("a") == ""


def test_a_value_from_outside_in_a_response() -> None:
    assert response_header("x-id", "req_1 ") == (b"x-id", b"req_1")
    for value in ("", "a\r\nb", "é", "a" * (MAX_HEADER_VALUE + 1)):
        assert response_header("x-id", value) is None


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


@pytest.mark.parametrize("url", ADDRESSES)
def test_addresses(url: str) -> None:
    if not ADDRESSES[url]:
        check_url(url, "base_url")
        return
    with pytest.raises(InputError) as caught:
        check_url(url, "base_url")
    assert str(caught.value).startswith(f"base_url {ADDRESSES[url]}")
    assert "secret" not in str(caught.value)
