"""Redaction finds secrets: tokens, values after the names of secrets, known values; in text, JSON, frames and AWS messages.

Also behind escapes and at every depth of JSON. JSON stays JSON, and what is no secret stays as it is.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock._framing.aws_messages import PRELUDE, find_messages, split_headers, write_header, write_message
from penstock._input_limits import MAX_JSON_DEPTH
from penstock._redaction import (
    _EDGE,
    _MAKERS,
    DEEP,
    MARK,
    cut_bytes,
    find_secrets,
    redact,
    redact_bytes,
    redact_cut,
    redact_json,
    redact_range,
)
from penstock._stream_redaction import redact_stream
from penstock.errors import FramingError
from penstock.framing import PARSERS, WRITERS
from penstock.testing import redact_chunks
from tests.support.each_case import each

if TYPE_CHECKING:
    from collections.abc import Callable

# All tokens in one pattern. Quadratic, so of no use outside a test; but its meaning is easy to see.
_TOKENS = re.compile(
    rf"""(?x)
    {_EDGE}(?:{"|".join(_MAKERS)})[-_][A-Za-z0-9_\-*.]{{6,}}
    | {_EDGE}AIza[A-Za-z0-9_\-]{{20,}}
    | {_EDGE}ya29\.[A-Za-z0-9_\-.]{{10,}}
    | {_EDGE}(?:AKIA|ASIA)[A-Z0-9]{{12,}}
    | {_EDGE}eyJ[A-Za-z0-9_\-]{{8,}}\.[A-Za-z0-9_\-]{{8,}}(?:\.[A-Za-z0-9_\-]*)?
    """
)

LETTERS = st.sampled_from(
    [*_MAKERS, *'-_ ."\\nxA9', "AIza", "ya29.", "AKIA", "eyJ", "\\n", "\\u000a", "abcdef0123456789" * 2]
)


@given(st.lists(LETTERS, max_size=30).map("".join))
def test_the_quick_search_finds_what_the_slow_one_does(text: str) -> None:
    slow = {place for match in _TOKENS.finditer(text) for place in range(*match.span())}
    quick = {place for span in find_secrets(text) for place in range(*span)}
    assert slow <= quick
    assert all(_TOKENS.search(text[first:last]) for first, last in find_secrets(text))


@each("maker", _MAKERS)
@each("around", ["{}", "a {} b", '"{}"', "\\n{}", "\\t{}\\n", "\\u000a{}", "\\\\n{}", "({})"])
def test_a_key_is_found_wherever_it_stands(maker: str, around: str) -> None:
    key = f"{maker}-0123456789abcdef"
    text = around.format(key)
    ((first, last),) = find_secrets(text)
    assert text[first:last] == key
    assert redact(text) == around.format(MARK)


FORMS = {
    "slack": "xoxb-123456789012-1234567890123-AbCdEfGhIjKlMnOpQrStUvWx", "slack-user": "xoxe.xoxp-1-Mi0yLTEyMzQ1Njc4OTA",
    "slack-app": "xapp-1-A0123456789-1234567890123-abcdef0123456789", "npm": "npm_" + "a1B2c3" * 6, "sendgrid": f"SG.{'a1' * 11}.{'b2' * 21}",
    "digitalocean": "dop_v1_" + "a1" * 32, "shopify": "shpat_" + "a1" * 16, "pypi": "pypi-AgEIcHlwaS5vcmc" + "Ab1_" * 12,
    "databricks": "dapi" + "0a" * 16, "square": "sq0atp-" + "Ab1-" * 6, "stripe": "whsec_" + "Ab1+" * 8, "google": "GOCSPX-" + "Ab1_" * 7,
    "refresh": "1//0" + "Ab1_" * 12, "vault": "hvs." + "Ab1_" * 8, "atlassian": "ATATT3" + "Ab1_" * 30, "docker": "dckr_pat_" + "Ab1_" * 7,
}  # fmt: skip


@each("form", FORMS)
@each("around", ["{}", "a {} b", '"{}"', "\\n{}\\n", "token {}, and"])
def test_a_token_of_a_known_form_is_removed(form: str, around: str) -> None:
    assert redact(around.format(FORMS[form])) == around.format(MARK)
    assert redact_bytes(around.format(FORMS[form]).encode()).decode() == around.format(MARK)


@each("slash", ["/", "\\/"])
def test_the_secret_part_of_an_address_is_removed(slash: str) -> None:
    path = slash.join(["services", "T01234567", "B01234567", "abcdefABCDEF012345678901"])
    assert redact(f"https://hooks.slack.com{slash}{path}") == f"https://hooks.slack.com{slash}{MARK}"
    path = slash.join(["webhooks", "123456789012345678", "aB3_" * 17])
    assert redact(f"https://discord.com/api/{path}") == f"https://discord.com/api/{MARK}"
    assert redact("/bot12345678:AA" + "Ab1_" * 9 + "/getMe") == f"/bot12345678{MARK}/getMe"


@each(
    "text",
    [
        "xoxb-your-token-here", "npm_config_registry", "https://hooks.slack.com/services/your/own/path", "SG.1",
        "secret_name",
    ],
)  # fmt: skip
def test_what_only_begins_like_a_token_stays(text: str) -> None:
    assert redact(text) == text


@each("value", ["dXNlcjpwYXNz", "dXNlcjpwYXNzd29yZA==", "YWxhZGRpbjpvcGVuL3Nlc2FtZTE\\/"])
def test_a_login_after_basic_is_removed(value: str) -> None:
    assert redact(f"Basic {value}") == f"Basic {MARK}"


@given(st.text(), st.text(min_size=4))
def test_what_is_known_by_value_is_gone(text: str, secret: str) -> None:
    spans = find_secrets(f"{text}{secret}{text}", [secret])
    covered = {place for span in spans for place in range(*span)}
    assert set(range(len(text), len(text) + len(secret))) <= covered


def test_json_stays_json() -> None:
    said = json.dumps({"text": '\nsk-0123456789abcdef\n"Bearer abcdefgh"', "key": "rk_0123456789"})
    made, place = [], 0
    for first, last in find_secrets(said):
        made += [said[place:first], MARK]
        place = last
    assert json.loads("".join([*made, said[place:]])) == {"text": f'\n{MARK}\n"Bearer {MARK}"', "key": MARK}


KEYS = st.sampled_from([
    "sk-ant-0123456789abcdef", "AIza" + "B" * 35, "ya29.abcdefghijklmn", "AKIAABCDEFGHIJKL0123",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJlMTIz", "eyJ" + "a" * 3000 + "." + "b" * 40,
])  # fmt: skip


@given(st.integers(0, 40), KEYS, st.integers(0, 30))
def test_a_cut_leaves_no_part_of_a_key(before: int, key: str, limit: int) -> None:
    """Wherever the cut is, no four characters of the key's own text are left."""
    text = f"{'.' * before} {key} {'.' * 5000}"
    shown = redact_cut(text, limit)
    body = key[5:]
    assert not any(body[place : place + 4] in shown for place in range(len(body) - 3))
    assert shown.endswith("more characters]")


@given(st.text(max_size=40), st.integers(0, 60))
def test_a_cut_leaves_no_part_of_a_known_value(text: str, limit: int) -> None:
    secret = "planted0value1of2a3customer"
    shown = redact_cut(f"{text}{secret}{'.' * 9000}", limit, [secret])
    assert "plan" not in shown.replace(text, "")


@each("start", ["http://user:", "eyJ", "see https://"])
def test_a_cut_inside_an_endless_token_leaves_none_of_it(start: str) -> None:
    assert "aaaa" not in redact_cut(start + "a" * 50_000, 4000)


def test_a_text_within_the_limit_is_not_cut() -> None:
    assert redact_cut("x" * 100, 100) == "x" * 100
    assert redact_cut("x" * 101, 100) == "x" * 100 + " … [1 more characters]"


@each("wrap", [lambda inner: [inner], lambda inner: {"a": inner}])
def test_json_of_any_depth_is_redacted(wrap: Any) -> None:
    value: Any = "sk-0123456789abcdef"
    for _ in range(100_000):
        value = wrap(value)
    made = redact_json(value)
    levels = 0
    while not isinstance(made, str):
        made = made[0] if isinstance(made, list) else made["a"]
        levels += 1
    assert (levels, made) == (MAX_JSON_DEPTH, DEEP)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES)
def test_a_value_without_secrets_is_kept(value: Any) -> None:
    redacted = json.dumps(redact_json(value))
    if MARK not in redacted:
        assert redacted == json.dumps(value)


def test_names_are_redacted_and_none_is_lost() -> None:
    made = redact_json({"sk-0123456789a": 1, "plain": "Bearer abcdefgh", "sk-0123456789b": [2]})
    assert made == {MARK: 1, "plain": f"Bearer {MARK}", f"{MARK} 2": [2]}


@given(st.text(st.characters(codec="utf-8"), min_size=8), st.booleans())
def test_a_known_value_is_removed_from_a_frame(secret: str, ascii_only: bool) -> None:
    frame = b"data: " + json.dumps({"error": f"key <{secret}> <sk-0123456789ab>"}, ensure_ascii=ascii_only).encode()
    shown = redact_bytes(frame, [secret])
    assert json.loads(shown[6:]) == {"error": f"key <{MARK}> <{MARK}>"}


def test_a_frame_without_secrets_is_the_same_object() -> None:
    frame = b'data: {"choices":[{"delta":{"content":"task-oriented, sky-high"}}]}\n\n'
    assert redact_bytes(frame, ["planted-value"]) is frame


@each("word", ["key_revoked", "key-value-store", "key_not_found: it expired", '{"code":"key_expired"}'])
def test_a_name_that_begins_with_key_stays(word: str) -> None:
    assert redact(word) == word


@each("key", ["key-0123456789abcdef", "key_Abcdefghijk", "key-********"])
def test_a_key_that_begins_with_key_does_not(key: str) -> None:
    assert redact(f"bad {key}") == "bad [secret]"


BEFORE = [
    "\x1b[32m", "\x1b[1;38;5;196m", "\x1b[K", "\\u001b[32m", "\\\\u001b[0m", "key%3D", "a%20", "%22", "%253D",
    "\\x3d", "=3D", "MY_",
]  # fmt: skip


@each("before", BEFORE)
@each("key", ["sk-ant-api03-AbCdEf0123456789", "ghp_AbCdEf0123456789AbCdEf0123456789abcd", *FORMS.values()])
def test_a_token_is_found_after_a_colour_code_an_escape_or_a_name(before: str, key: str) -> None:
    text = f'{{"c":"{before}{key}"}}'
    assert redact_bytes(text.encode("latin-1")).decode("latin-1") == f'{{"c":"{before}{MARK}"}}'


@each("slashes", ["\\", "\\\\", "\\\\\\\\"])
@each("escaped", "-sa0")
def test_a_token_is_found_though_ordinary_characters_are_escaped(slashes: str, escaped: str) -> None:
    key = "sk-ant-api03-AbCdEf0123456789".replace(escaped, f"{slashes}u00{ord(escaped):02x}")
    assert redact_bytes(f'{{"a":"\\u0041","c":"x {key} y"}}'.encode()).decode() == f'{{"a":"\\u0041","c":"x {MARK} y"}}'
    known = "planted-value".replace(escaped, f"{slashes}u00{ord(escaped):02X}")
    assert redact_bytes(f'{{"c":"{known}!"}}'.encode(), ["planted-value"]).decode() == f'{{"c":"{MARK}!"}}'


@each(
    "text",
    [
        "task-force-members-2024", "desk-lamp-with-2-arms", "my_sess_id_count_1", "primary_key_column_2", "the_hf_model_name_2b",
        "api_key_revoked", "risk_sk-", "_sk-learn-estimators", "10%task-lists", "\\u0041\\u002d\\u0042", "a[m key", "x=3Dtask-force",
    ],
)  # fmt: skip
def test_words_with_such_beginnings_stay(text: str) -> None:
    assert redact_bytes(text.encode()) == text.encode()


# ── values after the names of secrets ─────────────────────────────────────────────────────────────

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


@each("encoder", ENCODERS)
@each("text", REMOVED)
def test_a_value_after_the_name_of_a_secret_is_removed(text: str, encoder: str) -> None:
    """At every depth of JSON in JSON. The quotes of a shell are removed with their text, if there is an escape in it."""
    wanted = REMOVED[text].replace("*", MARK)
    for written, level in levels(text, ENCODERS[encoder]):
        if encoder == "dotnet" and level and "'" in text:
            continue  # apostrophes are escaped there, and end no value
        shown = unwrap(redact_bytes(written.encode()).decode(), level)
        assert shown.replace(f'"{MARK}"', MARK) == wanted.replace(f'"{MARK}"', MARK), level


@each("encoder", ENCODERS)
@each(
    "text", ["**Password:** {}77\nnext", "**Password**: {}7", "- **API key:** `{}`", "1. **Client secret**: `{}`, of b"]
)
def test_a_value_after_a_name_in_bold_is_removed(text: str, encoder: str) -> None:
    """In Markdown: READMEs and answers of models."""
    for written, level in levels(text.format("mdPwPlain"), ENCODERS[encoder]):
        shown = unwrap(redact_bytes(written.encode()).decode(), level)
        assert re.sub("7+", "", shown) == re.sub("7+", "", text.format(MARK)), level


@each("encoder", ENCODERS)
@each("text", KEPT)
def test_what_is_no_secret_stays(text: str, encoder: str) -> None:
    for written, level in levels(text, ENCODERS[encoder]):
        data = written.encode()
        assert redact_bytes(data) is data, level


PIECES = st.sampled_from([
    "password", "PASSWORD", "api_key", "token", "secret", "=", ":", ": ", '"', "'", "`", "\\", "\n", " ", "hunter2", "{", "}", "[", "]", ",",
    "12345678", "\u00e0", "\u0130", "u0022", "://", "@", "user:pw", "/", "(", "?key=", "&", "-----BEGIN PRIVATE KEY-----", "M" * 40, "+", "$",
])  # fmt: skip
TEXTS = st.lists(PIECES, max_size=12).map("".join)
NAMED_VALUES = st.recursive(
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


@given(NAMED_VALUES, st.sampled_from(["python", "utf-8", "dotnet"]), st.integers(0, 2))
def test_json_within_json_stays_json(value: Any, encoder: str, depth: int) -> None:
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


@given(NAMED_VALUES)
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


@each("place", range(4, 60, 5))
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


# ── AWS event streams: messages stay readable, however a stream is cut into chunks ────────────────

KNOWN, TOKEN, PASSWORD = 'he said "no"', "sk-planted0123456789abcdef", "hunter2-planted"
PAYLOADS: list[Any] = [
    {"delta": {"text": "before"}},
    {"delta": {"text": f"{KNOWN} and {TOKEN}"}},
    {"delta": {"toolUse": {"input": json.dumps({"password": PASSWORD})}}},
    {"delta": {"text": "after"}},
]
FRAMES = [(b"contentBlockDelta", json.dumps(one).encode()) for one in PAYLOADS]


def write_stream(frames: list[tuple[bytes, bytes]]) -> bytes:
    return b"".join(WRITERS["eventstream"]().feed(frames))


def read_messages(data: bytes) -> list[tuple[bytes, bytes]]:
    parser = PARSERS["eventstream"]()
    return [*parser.feed([data]), *parser.finish()]


def cut(data: bytes, places: list[int]) -> list[tuple[float, bytes]]:
    borders = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [(float(at), data[first:last]) for at, (first, last) in enumerate(pairwise(borders))]


STREAM = write_stream(FRAMES)


@given(st.lists(st.integers(0, 10_000), max_size=30))
def test_messages_are_readable_and_end_when_they_did(places: list[int]) -> None:
    chunks = cut(STREAM, places)
    kept, hidden = redact_chunks(chunks, [KNOWN])
    assert hidden == 3
    assert [at for at, _ in kept] == [at for at, _ in chunks]
    whole = b"".join(chunk for _, chunk in kept)
    shown = [json.loads(payload) for _, payload in read_messages(whole)]
    assert shown[1] == {"delta": {"text": f"{MARK} and {MARK}"}}
    assert json.loads(shown[2]["delta"]["toolUse"]["input"]) == {"password": MARK}
    assert (shown[0], shown[3]) == (PAYLOADS[0], PAYLOADS[3])
    assert _message_times(kept) == _message_times(chunks)
    assert redact_chunks(kept, [KNOWN]) == (kept, 0)


def _message_times(chunks: list[tuple[float, bytes]]) -> list[float]:
    """When each message was complete."""
    parser = PARSERS["eventstream"]()
    return [at for at, chunk in chunks for _ in parser.feed([chunk])]


def test_the_chunks_of_a_long_message_keep_their_sizes() -> None:
    chunks = cut(
        write_stream([(b"a", json.dumps({"text": f"{'x' * 5000} {TOKEN} {'y' * 5000}"}).encode())]), [2000, 4500, 7000]
    )
    kept, _ = redact_chunks(chunks)
    changed = [len(new) - len(old) for (_, new), (_, old) in zip(kept, chunks, strict=True)]
    assert changed == [0, 0, len(MARK) - len(TOKEN), 0]
    assert (
        json.loads(read_messages(b"".join(chunk for _, chunk in kept))[0][1])["text"]
        == f"{'x' * 5000} {MARK} {'y' * 5000}"
    )


def test_what_has_no_secret_is_not_touched() -> None:
    chunks = cut(write_stream(FRAMES[:1]), [5, 20])
    assert redact_chunks(chunks, [KNOWN]) == (chunks, 0)
    data = write_stream(FRAMES[:1])
    assert redact_stream(data, [KNOWN])[0] is data


def test_other_streams_are_redacted_too() -> None:
    assert redact_stream(f"data: {TOKEN}".encode()) == (f"data: {MARK}".encode(), 1)


def test_the_base64_of_a_model_of_another_maker() -> None:
    inner = {"delta": {"text": TOKEN, "partial_json": json.dumps({"password": PASSWORD})}}
    outer = {"bytes": b64encode(json.dumps(inner).encode()).decode(), "p": "abcd"}
    [(_, shown)] = read_messages(redact_stream(write_stream([(b"chunk", json.dumps(outer).encode())]))[0])
    found = json.loads(shown)["delta"]
    assert (found["text"], json.loads(found["partial_json"])) == (MARK, {"password": MARK})


def test_a_secret_over_the_parts_of_an_inner_stream() -> None:
    data =  write_stream([(b"PayloadPart", b'data: {"text":"' + TOKEN[:9].encode()), (b"PayloadPart", TOKEN[9:].encode() + b'"}\n\n')])  # fmt: skip
    assert [payload for _, payload in read_messages(redact_stream(data)[0])] == [
        f'data: {{"text":"{MARK}'.encode(),
        b'"}\n\n',
    ]


def test_the_values_of_headers() -> None:
    headers = b"".join([
        write_header(b":message-type", b"error"), write_header(b":error-message", f"the key {TOKEN} is bad".encode()),
        b"\x04flag\x00", b"\x04time\x08" + bytes(8),
    ])  # fmt: skip
    cleaned, _ = redact_stream(write_message(headers, b"") + STREAM)
    assert read_messages(cleaned)[0] == (b"error", json.dumps({"message": f"the key {MARK} is bad"}, separators=(",", ":")).encode())  # fmt: skip
    span = next(find_messages(cleaned))
    assert [kind for _, kind, _ in split_headers(cleaned[span.headers_start : span.payload_start])] == [7, 7, 0, 8]
    assert len(read_messages(cleaned)) == 1 + len(FRAMES)


@each("headers", [b"\x04", b"\x90name", b"\x01a\x07\x00", b"\x01a\x63", b"\x01a\x07\x00\xffabc"])
def test_damaged_headers_stay_but_for_their_secrets(headers: bytes) -> None:
    cleaned, _ = redact_stream(write_message(headers + b" " + TOKEN.encode(), b"{}") + STREAM)
    assert TOKEN.encode() not in cleaned
    assert len(list(find_messages(cleaned))) == 1 + len(FRAMES)


def test_damaged_messages_stay_damaged_without_their_secrets() -> None:
    first = len(write_stream(FRAMES[:1]))
    broken = bytearray(STREAM)
    broken[first + PRELUDE.size] ^= 1
    for data in (bytes(broken), STREAM[first + 1 :], STREAM[:first] + b"?" + STREAM[first:]):
        cleaned, _ = redact_stream(data, [KNOWN])
        assert TOKEN.encode() not in cleaned
        assert PASSWORD.encode() not in cleaned
        with pytest.raises(FramingError):
            _read_to_the_damage(cleaned)


def _read_to_the_damage(data: bytes) -> None:
    parser = PARSERS["eventstream"]()
    parser.feed([data])
    parser.feed([b""])  # messages before the damage are given first


@given(st.integers(0, len(STREAM)))
def test_a_stream_that_is_cut_anywhere(end: int) -> None:
    """Whole messages are read, and the rest counts as cut, not as damaged."""
    secret = "four"
    data = write_stream([(b"a", json.dumps({"text": f"{TOKEN} {secret * 20} end"}).encode())] * 3)
    end = end % len(data)
    cleaned, _ = redact_stream(data[:end], [secret])
    assert len(read_messages(cleaned)) == len(read_messages(data[:end]))
