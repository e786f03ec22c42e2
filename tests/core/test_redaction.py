"""Redaction finds secrets, also behind escapes, in time that grows linearly with the text."""

from __future__ import annotations

import json
import re
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.growth import assert_linear

from penstock._input_limits import MAX_JSON_DEPTH
from penstock._redaction import _EDGE, _MAKERS, DEEP, MARK, find_secrets, redact, redact_bytes, redact_cut, redact_json

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


@pytest.mark.parametrize("maker", _MAKERS)
@pytest.mark.parametrize("around", ["{}", "a {} b", '"{}"', "\\n{}", "\\t{}\\n", "\\u000a{}", "\\\\n{}", "({})"])
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


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("around", ["{}", "a {} b", '"{}"', "\\n{}\\n", "token {}, and"])
def test_a_token_of_a_known_form_is_removed(form: str, around: str) -> None:
    assert redact(around.format(FORMS[form])) == around.format(MARK)
    assert redact_bytes(around.format(FORMS[form]).encode()).decode() == around.format(MARK)


@pytest.mark.parametrize("slash", ["/", "\\/"])
def test_the_secret_part_of_an_address_is_removed(slash: str) -> None:
    path = slash.join(["services", "T01234567", "B01234567", "abcdefABCDEF012345678901"])
    assert redact(f"https://hooks.slack.com{slash}{path}") == f"https://hooks.slack.com{slash}{MARK}"
    path = slash.join(["webhooks", "123456789012345678", "aB3_" * 17])
    assert redact(f"https://discord.com/api/{path}") == f"https://discord.com/api/{MARK}"
    assert redact("/bot12345678:AA" + "Ab1_" * 9 + "/getMe") == f"/bot12345678{MARK}/getMe"


@pytest.mark.parametrize(
    "text",
    [
        "xoxb-your-token-here",
        "npm_config_registry",
        "https://hooks.slack.com/services/your/own/path",
        "SG.1",
        "secret_name",
    ],
)
def test_what_only_begins_like_a_token_stays(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize("value", ["dXNlcjpwYXNz", "dXNlcjpwYXNzd29yZA==", "YWxhZGRpbjpvcGVuL3Nlc2FtZTE\\/"])
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


@pytest.mark.parametrize("start", ["http://user:", "eyJ", "see https://"])
def test_a_cut_inside_an_endless_token_leaves_none_of_it(start: str) -> None:
    assert "aaaa" not in redact_cut(start + "a" * 50_000, 4000)


def test_a_text_within_the_limit_is_not_cut() -> None:
    assert redact_cut("x" * 100, 100) == "x" * 100
    assert redact_cut("x" * 101, 100) == "x" * 100 + " … [1 more characters]"


@pytest.mark.parametrize("wrap", [lambda inner: [inner], lambda inner: {"a": inner}])
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


@pytest.mark.parametrize(
    "word", ["key_revoked", "key-value-store", "key_not_found: it expired", '{"code":"key_expired"}']
)
def test_a_name_that_begins_with_key_stays(word: str) -> None:
    assert redact(word) == word


@pytest.mark.parametrize("key", ["key-0123456789abcdef", "key_Abcdefghijk", "key-********"])
def test_a_key_that_begins_with_key_does_not(key: str) -> None:
    assert redact(f"bad {key}") == "bad [secret]"


BEFORE = [
    "\x1b[32m",
    "\x1b[1;38;5;196m",
    "\x1b[K",
    "\\u001b[32m",
    "\\\\u001b[0m",
    "key%3D",
    "a%20",
    "%22",
    "%253D",
    "\\x3d",
    "=3D",
    "MY_",
]


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize(
    "key", ["sk-ant-api03-AbCdEf0123456789", "ghp_AbCdEf0123456789AbCdEf0123456789abcd", *FORMS.values()]
)
def test_a_token_is_found_after_a_colour_code_an_escape_or_a_name(before: str, key: str) -> None:
    text = f'{{"c":"{before}{key}"}}'
    assert redact_bytes(text.encode("latin-1")).decode("latin-1") == f'{{"c":"{before}{MARK}"}}'


@pytest.mark.parametrize("slashes", ["\\", "\\\\", "\\\\\\\\"])
@pytest.mark.parametrize("escaped", "-sa0")
def test_a_token_is_found_though_ordinary_characters_are_escaped(slashes: str, escaped: str) -> None:
    key = "sk-ant-api03-AbCdEf0123456789".replace(escaped, f"{slashes}u00{ord(escaped):02x}")
    assert redact_bytes(f'{{"a":"\\u0041","c":"x {key} y"}}'.encode()).decode() == f'{{"a":"\\u0041","c":"x {MARK} y"}}'
    known = "planted-value".replace(escaped, f"{slashes}u00{ord(escaped):02X}")
    assert redact_bytes(f'{{"c":"{known}!"}}'.encode(), ["planted-value"]).decode() == f'{{"c":"{MARK}!"}}'


@pytest.mark.parametrize(
    "text",
    [
        "task-force-members-2024", "desk-lamp-with-2-arms", "my_sess_id_count_1", "primary_key_column_2", "the_hf_model_name_2b",
        "api_key_revoked", "risk_sk-", "_sk-learn-estimators", "10%task-lists", "\\u0041\\u002d\\u0042", "a[m key", "x=3Dtask-force",
    ],
)  # fmt: skip
def test_words_with_such_beginnings_stay(text: str) -> None:
    assert redact_bytes(text.encode()) == text.encode()


@pytest.mark.parametrize(
    "piece", ["\\u002d", "sk\\u002d", "\\\\\\u0041", "\x1b[32m", "_sk-", "_sk-a", "%3Dsk-", "KEY\x1b[0m", "\\u00"]
)
def test_escapes_are_searched_in_linear_time(piece: str) -> None:
    assert_linear(lambda size: partial(find_secrets, piece * (size // len(piece)), ["sk-sk-"]), piece)
