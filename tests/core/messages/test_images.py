"""Files: what they really are, and where they may stand."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import request as rq
from penstock.errors import BadRequest
from tests.support.each_case import each
from tests.support.request_passes import (
    Diagnostics,
    FileSupport,
    Images,
    check_media,
    decoded_size,
    describe_file,
    detect_media_type,
    place_files,
)
from tests.support.talks import REQUESTS, ask, assistant, call, codes, plain, shape, steady, tool, user

PNG = b64encode(b"\x89PNG\r\n\x1a\n" + b"\0" * 40).decode()
JPEG = b64encode(b"\xff\xd8\xff\xe0" + b"\0" * 40).decode()
USERS = FileSupport(frozenset({"user", "tool"}))


def picture(media: str = "image/png", data: str = PNG, **more: Any) -> rq.File:
    return rq.File(media, data=data, **more)


@each(
    "label, data, media",
    [
        ("image/png", PNG, "image/png"), ("image/png", JPEG, "image/jpeg"), ("image/*", PNG, "image/png"),
        ("application/octet-stream", PNG, "image/png"), ("", PNG, "image/png"), ("IMAGE/PNG; q=1", PNG, "image/png"),
        ("image/jpg", "", "image/jpeg"), ("text/plain", b64encode(b"BM, it said").decode(), "text/plain"),
        ("application/json", PNG, "application/json"), ("image/png", "not base64 at all", "image/png"),
        ("", "", "application/octet-stream"),
        ("image/webp", b64encode(b"RIFF\0\0\0\0WEBPVP8 ").decode(), "image/webp"),
    ],
)  # fmt: skip
def test_bytes_are_believed_before_labels(label: str, data: str, media: str) -> None:
    assert detect_media_type(rq.File(label, data=data)) == media


def test_a_wrong_label_is_mended_and_reported_also_in_results() -> None:
    notes = Diagnostics()
    answer = rq.Result("a", content=[rq.Text("see"), picture(data=JPEG)])
    made = check_media(ask(user(picture(data=JPEG)), assistant(call("a")), tool(answer)), notes)
    inside = made.messages[2].parts[0].content[1]  # type: ignore[union-attr]
    assert (made.messages[0].parts[0].media, inside.media) == ("image/jpeg", "image/jpeg")  # type: ignore[union-attr]
    assert [(note.code, note.count) for note in notes] == [("media-type", 2)]


def test_right_labels_are_left_alone() -> None:
    request = ask(user("x", picture()))
    assert check_media(request, Diagnostics()) is request


@given(REQUESTS)
def test_checking_is_steady(request_: rq.Request) -> None:
    steady(request_, check_media)


# ── where they may stand ──────────────────────────────────────────────────────────────────────────

TALK = ask(
    user("look", picture()), assistant("I drew", picture(name="cat.png")), tool(rq.Result("a", content=[picture()]))
)


def placed(how: Images, holding: FileSupport = USERS) -> tuple[rq.Request, list[str]]:
    notes = Diagnostics()
    return place_files(TALK, holding, how, notes), codes(notes)


def test_a_placeholder_says_what_there_was() -> None:
    made, found = placed("placeholder")
    assert shape(made) == ["user text file", "assistant text text", "tool result:a"]
    assert made.messages[1].parts[1] == rq.Text("[cat.png, image/png, 48 bytes]")
    assert made.messages[2] is TALK.messages[2]
    assert found == ["file-refused"]


def test_it_can_be_left_out() -> None:
    made, found = placed("skip")
    assert shape(made)[1] == "assistant text"
    assert found == ["file-refused"]


def test_it_can_be_an_error_that_names_the_place() -> None:
    with pytest.raises(BadRequest, match=r"messages\[1\].content\[1\]: expected no file here .*role assistant"):
        placed("error")


def test_or_kept_for_a_writer_to_move() -> None:
    assert placed("keep") == (TALK, [])


def test_but_what_the_target_does_not_take_at_all_is_no_use_to_it() -> None:
    made, found = placed("keep", FileSupport(frozenset({"user"}), media=("text/",)))
    assert not any(isinstance(part, rq.File) for one in made.messages for part in one.parts)
    assert found == ["file-refused"]


def test_a_target_that_takes_no_files_in_results() -> None:
    made, found = placed("placeholder", FileSupport(frozenset({"user", "assistant"}), results=False))
    inside = made.messages[2].parts[0].content  # type: ignore[union-attr]
    assert inside == [rq.Text("[image, image/png, 48 bytes]")]
    assert found == ["file-refused"]


def test_a_target_without_eyes() -> None:
    made, _ = placed("placeholder", FileSupport(media=("text/",)))
    assert not any(isinstance(part, rq.File) for one in made.messages for part in one.parts)


def test_a_file_that_is_too_large() -> None:
    made, _ = placed("placeholder", FileSupport(limit=40))
    assert made.messages[0].parts[1] == rq.Text("[image, image/png, 48 bytes]")
    assert placed("placeholder", FileSupport(limit=48))[0] is TALK


@given(st.binary(max_size=40))
def test_sizes_are_those_of_the_bytes(data: bytes) -> None:
    assert decoded_size(rq.File("x/y", data=b64encode(data).decode())) == len(data)


def test_a_file_elsewhere_is_told_by_its_address() -> None:
    assert (
        describe_file(rq.File("image/png", "https://example.org/a.png"))
        == "image, image/png, https://example.org/a.png"
    )
    assert describe_file(rq.File("application/pdf", data="A" * 4_000_000)) == "file, application/pdf, 3 MB"


@given(REQUESTS, st.sampled_from(["placeholder", "skip", "keep"]))
def test_placing_is_steady(request_: rq.Request, how: Images) -> None:
    before = plain(request_)
    made = steady(request_, lambda one, notes: place_files(one, USERS, how, notes))
    assert plain(request_) == before
    assert how == "keep" or not any(
        isinstance(part, rq.File) for one in made.messages if one.role == "assistant" for part in one.parts
    )
