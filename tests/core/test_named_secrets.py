"""Values after the names of secrets are found in JSON of any depth, and JSON stays JSON; program code stays as it is."""

from __future__ import annotations

import json
import re
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.growth import seconds

from penstock._redaction import MARK, cut_bytes, find_secrets, redact, redact_bytes, redact_json, redact_range

if TYPE_CHECKING:
    from collections.abc import Callable


REMOVED = {
    "password=hunter2": "password=*",
    "\x1b[34mDB_PASSWORD\x1b[0m=\x1b[32mhunter2hunter2\x1b[0m": "\x1b[34mDB_PASSWORD\x1b[0m=\x1b[32m*\x1b[0m",
    "\\u001b[34mDB_PASSWORD\\u001b[0m=\\u001b[32mhunter2\\u001b[0m": "\\u001b[34mDB_PASSWORD\\u001b[0m=\\u001b[32m*\\u001b[0m",
    "http://127.0.0.1:4480/#session=q3Zt-x0123456789_aBcDeFgHiJk ok": "http://127.0.0.1:4480/#session=* ok",
    "x-penstock-session-token: q3Zt-x0123456789_aBcDeFgHiJk": "x-penstock-session-token: *",
    "the password: hunter2!": "the password: *",
    "password=pässwörd9 next": "password=* next",
    "export AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG+bPxRfi\nnext": "export AWS_SECRET_ACCESS_KEY=*\nnext",
    "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG": "aws_secret_access_key = *",
    "DB_PASSWORD=correcthorse\nDB_HOST=db": "DB_PASSWORD=*\nDB_HOST=db",
    "POSTGRES_PASSWORD=mysecretpassword": "POSTGRES_PASSWORD=*",
    'PASSWORD="it\'s \\"me\\" again" next': "PASSWORD=* next",
    "PASSWORD='two words' next": "PASSWORD='*' next",
    'password = "hunter2"\n': 'password = "*"\n',
    'password: str = "hunter2"': 'password: str = "*"',
    "say `password: hunter22`": "say `password: *`",
    "password: `hunter2`": "password: `*`",
    '{"password": "hunter2"}': '{"password": "*"}',
    '{"password":"correct horse battery staple"}': '{"password":"*"}',
    '{"password":"abcd\\\\","b":"c"}': '{"password":"*","b":"c"}',
    '{"password":"ab\\"cd\\n","b":"c"}': '{"password":"*","b":"c"}',
    "{'db_password': 'hunter2'}": "{'db_password': '*'}",
    '{"apiKey":"abcdef","api_key" : "ghijkl"}': '{"apiKey":"*","api_key" : "*"}',
    '{"API Key":"abcdef"}': '{"API Key":"*"}',
    '{"client_secret":"abcd","refresh_token":"efgh","passphrase":"ij kl"}':
        '{"client_secret":"*","refresh_token":"*","passphrase":"*"}',
    '{"authorization":"Digest abcdef"}': '{"authorization":"*"}',
    '{"private_key":"-----BEGIN PRIVATE KEY-----\\nMII0\\n-----END PRIVATE KEY-----\\n"}': '{"private_key":"*"}',
    '{"token":"abcdefghij0123456789"}': '{"token":"*"}',
    "STRIPE_KEY=abcdefgh01234567": "STRIPE_KEY=*",
    'os.environ["DB_PASSWORD"] = "hunter2"': 'os.environ["DB_PASSWORD"] = "*"',
    'secret := "abcd"': 'secret := "*"',
    "'password' => 'hunter2',": "'password' => '*',",
    "AccountName=x;AccountKey=abcdefghij0123456789+/==;Pwd=hunter2;": "AccountName=x;AccountKey=*;Pwd=*;",
    "API_KEY_2=hunter2": "API_KEY_2=*",
    "curl 'https://h/v1?key=abcdefgh&alt=sse&token=ijklmn'": "curl 'https://h/v1?key=*&alt=sse&token=*'",
    "-H 'x-api-key: abc123def'": "-H 'x-api-key: *'",
    "postgres://user:pw@host/db": "postgres://*@host/db",
    "https://0123456789abcdef0123@sentry.io/1": "https://*@sentry.io/1",
    "__Password__: `hunter2`": "__Password__: `*`",
    "https://abcdef0123456789@github.com/a/b": "https://*@github.com/a/b",
    "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIEpAIBAAKCAQEA0123\n" * 3 + "-----END RSA PRIVATE KEY-----":
        "-----BEGIN RSA PRIVATE KEY-----*-----END RSA PRIVATE KEY-----",
}  # fmt: skip

KEPT = (
    "password = get_password()", "token: str", "secret: Secret[str]", "api_key: Optional[str] = None", "password: string;",
    "secret: SecretStr = Field(default=None)", "password=args.password, timeout=30", "api_key=settings.s3.api_key",
    "password=user2_password", "password=self._password2)", "const password = process.env.DB_PASSWORD;", "password == None",
    "API_KEY=$OPENAI_API_KEY", "API_KEY=${OPENAI_API_KEY}", "PASSWORD=$(cat /run/secrets/password)", 'api_key="OPENAI_API_KEY"',
    'api_key="your-api-key"', 'password="<password>"', 'f"password={password}"', 'password: "Enter your password"',
    'input("Password: ")\nprint("x")', '"password=" + password + "&x=1"', 'getenv("API_KEY", "12345678")',
    '{"password":{"type":"string"},"required":["password"]}', '{"type":"password","secret":"string"}', '{"password":null}',
    '{"password":12345678}', '{"max_tokens":4096,"total_tokens":12345678}', '{"token":"hello","logprob":-0.1}',
    '{"token":"password","bytes":[1]},{"token":":"},{"token":" \\"","x":"hunter2"}', '{"key":"value-01234567","text":"secret"}',
    '{"prompt_cache_key":"session-0123456789abcdef"}', '{"next_page_token":"abcdefghij0123456789"}', '{"a":"password:","b":"hunter2"}',
    '{"messages":[{"content":"Password: "}],"n":12345678,"b":"x"}', '["password:",12345678,"x"]', '{"a":"PASSWORD=","b":"c1d2e3f4"}',
    '{"Enter your new password":"Neues Kennwort"}', "PWD=/home/user1", "git clone ssh://git@github.com/a/b",
    "postgres://${USER}:${PASSWORD}@db/x", "https://example.com/?to=me@example.com", "headers: `Bearer ${token}`",
    '{"password":"[secret]","authorization":"Bearer [secret]"}', "if (password1 !== password2) return", "key=value&token_count=12345678",
    'export API_KEY="$(cat key1.txt)"', "password: $ref1234567", "secret: my-tls-secret1", "PASSWORD=$ref1234567",
    "**Password:** at least 12 characters", "**Password:** `<password>`", "basic authentication2 uses", "Bearer authentication",
    "the bearer should know it", "Basic training", "the password is hunter2", "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----", "password: at least 12 characters",
)  # fmt: skip


def dotnet(value: Any) -> str:
    """JSON as .NET writes it."""
    return json.dumps(value)[1:-1].replace('\\"', "\\u0022").replace("'", "\\u0027").replace("+", "\\u002B").join('""')


ENCODERS: dict[str, Callable[[Any], str]] = {
    "python": json.dumps,
    "utf-8": lambda value: json.dumps(value, ensure_ascii=False),
    "php": lambda value: json.dumps(value).replace("/", "\\/"),
    "dotnet": dotnet,
}


def levels(text: str, encode: Callable[[Any], str]) -> list[tuple[str, int]]:
    """A text, and the same in a string of JSON, in a string of JSON in a string of JSON, and so on."""
    made = [(text, 0)]
    for level in range(1, 4):
        made.append((encode(made[-1][0]) if level == 1 else json.dumps(made[-1][0]), level))
    return made


def unwrap(text: str, level: int) -> str:
    for _ in range(level):
        text = json.loads(text)
    return text


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("text", REMOVED)
def test_a_value_after_the_name_of_a_secret_is_removed(text: str, encoder: str) -> None:
    """At every depth of JSON in JSON. The quotes of a shell are removed with their text, if there is an escape in it."""
    wanted = REMOVED[text].replace("*", MARK)
    for written, level in levels(text, ENCODERS[encoder]):
        if encoder == "dotnet" and level and "'" in text:
            continue  # apostrophes are escaped there, and end no value
        shown = unwrap(redact_bytes(written.encode()).decode(), level)
        assert shown.replace(f'"{MARK}"', MARK) == wanted.replace(f'"{MARK}"', MARK), level


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize(
    "text", ["**Password:** {}77\nnext", "**Password**: {}7", "- **API key:** `{}`", "1. **Client secret**: `{}`, of b"]
)
def test_a_value_after_a_name_in_bold_is_removed(text: str, encoder: str) -> None:
    """In Markdown: READMEs and answers of models."""
    for written, level in levels(text.format("mdPwPlain"), ENCODERS[encoder]):
        shown = unwrap(redact_bytes(written.encode()).decode(), level)
        assert re.sub("7+", "", shown) == re.sub("7+", "", text.format(MARK)), level


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("text", KEPT)
def test_what_is_no_secret_stays(text: str, encoder: str) -> None:
    for written, level in levels(text, ENCODERS[encoder]):
        data = written.encode()
        assert redact_bytes(data) is data, level


PIECES = st.sampled_from([
    "password", "PASSWORD", "api_key", "token", "secret", "=", ":", ": ", '"', "'", "`", "\\", "\n", " ", "hunter2", "{", "}", "[", "]", ",",
    "12345678", "\u00e0", "\u0130", "u0022", "://", "@", "user:pw", "/", "(", "?key=", "&", "-----BEGIN PRIVATE KEY-----", "M" * 40, "+", "$",
])  # fmt: skip
TEXTS = st.lists(PIECES, max_size=12).map("".join)
VALUES = st.recursive(
    st.none() | st.integers(10**7, 10**9) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


def shape(text: str) -> Any:
    """The values of a JSON text without its strings."""

    def strip(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return [strip(inner) for inner in value]  # pyright: ignore[reportUnknownVariableType]
        return "" if isinstance(value, str) else value

    return strip(json.loads(text, object_pairs_hook=tuple))


@given(VALUES, st.sampled_from(["python", "utf-8", "dotnet"]), st.integers(0, 2))
def test_json_stays_json(value: Any, encoder: str, depth: int) -> None:
    """Also JSON within strings of JSON: no quote, bracket or number is lost at any depth."""
    written = json.dumps(value)
    for _ in range(depth):
        written = json.dumps({"a": ENCODERS[encoder](written), "b": "c"})
    texts = (redact_bytes(written.encode()).decode(), redact_range(written, 0, len(written)))
    for shown in texts:
        inner, before = shown, written
        for _ in range(depth):
            assert shape(inner) == shape(before)
            outer, outer_before = json.loads(inner), json.loads(before)
            assert outer["b"] == "c"
            inner, before = json.loads(outer["a"]), json.loads(outer_before["a"])
        assert shape(inner) == shape(before)


@given(VALUES)
def test_what_is_redacted_twice_is_the_same(value: Any) -> None:
    once = redact_bytes(json.dumps(value).encode())
    assert redact_bytes(once) == once


def test_a_frame_of_a_stream_stays_whole() -> None:
    frames = (
        b'data: {"delta":{"partial_json":"{\\"password\\": \\"hunt"}}\n\ndata: {"delta":{"partial_json":"er2\\"}"}}\n\n'
    )
    first, second, _ = redact_bytes(frames).split(b"\n\n")
    assert json.loads(first[6:]) == {"delta": {"partial_json": f'{{"password": "{MARK}'}}
    assert second in frames


@pytest.mark.parametrize("place", range(4, 60, 5))
def test_a_value_at_a_cut_stays_removed(place: int) -> None:
    text = '{"a":{"password":"correct horse battery staple nine"},"b":"c"}'
    shown = cut_bytes(text.encode(), place).decode()
    assert not any(word in shown for word in ("corr", "horse", "batt", "stap", "nine"))
    rest = redact_range(text, place, len(text))
    assert not any(word in rest for word in ("rrect", "horse", "ttery", "aple", "nine"))


def test_members_of_a_value() -> None:
    value = {
        "metadata": {
            "password": "two words",
            "api_key": ["x"],
            "token": "hello",
            "secret": "string",
            "authorization": None,
        }
    }
    assert redact_json(value) == {"metadata": {**value["metadata"], "password": MARK}}
    assert redact('{"password": "two words"}') == f'{{"password": "{MARK}"}}'


def test_the_positions_are_those_of_the_text() -> None:
    text = '\u0130\u0130 "password": "hunter2"'
    ((first, last),) = find_secrets(text)
    assert text[first:last] == "hunter2"


@pytest.mark.parametrize("piece", ["A_KEY=", "password=", "token=", "secret:", "secret=$A", "password**:", "&key="])
def test_a_text_full_of_names_takes_little_longer_than_words(piece: str) -> None:
    """A client chooses its User-Agent, and a model its text: neither may be slow to search."""
    times = {one: seconds(partial(find_secrets, one * (60_000 // len(one))), 5) for one in ("plain words ", piece)}
    assert times[piece] < 50 * times["plain words "]
