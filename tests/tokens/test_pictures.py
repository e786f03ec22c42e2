"""Pictures by their headers and by each provider's formula; pages of a PDF. Formulas against the providers' own examples."""

from __future__ import annotations

import base64
import struct

import pytest

from penstock._tokens.families import load_tables
from penstock._tokens.file_costs import DEFAULT_SIZE, count_pages, decode_head, image_size, image_tokens
from penstock.request import File, Message
from penstock.tokens import HybridTokenEstimator


def png(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", width, height) + b"\x08\x06\0\0\0"


def jpeg(width: int, height: int, before: int = 0) -> bytes:
    thumbnail = b"\xff\xe1" + struct.pack(">H", before + 2) + b"\xff\xc0" * (before // 2) if before else b""
    frame = b"\xff\xc2" + struct.pack(">HBHHB", 17, 8, height, width, 3) + b"\0" * 9
    return b"\xff\xd8\xff\xe0" + struct.pack(">H", 16) + b"JFIF\0" + b"\0" * 9 + thumbnail + b"\xff" + frame


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height) + b"\0" * 3


def webp(kind: bytes, width: int, height: int) -> bytes:
    body = {
        b"VP8 ": b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", width, height),
        b"VP8L": b"\x2f" + struct.pack("<I", (width - 1) | (height - 1) << 14) + b"\0" * 5,
        b"VP8X": b"\0" * 4 + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little"),
    }[kind]
    return b"RIFF" + b"\0" * 4 + b"WEBP" + kind + b"\0" * 4 + body


HEADERS = {
    "png": png(1024, 768), "jpeg": jpeg(1024, 768), "jpeg with a preview": jpeg(1024, 768, 40_000),
    "gif": gif(1024, 768), "webp": webp(b"VP8 ", 1024, 768), "webp lossless": webp(b"VP8L", 1024, 768),
    "webp extended": webp(b"VP8X", 1024, 768),
}  # fmt: skip


@pytest.mark.row("T3")
@pytest.mark.parametrize("kind", HEADERS)
def test_the_size_is_read_from_the_header(kind: str) -> None:
    data = base64.b64encode(HEADERS[kind] + b"\0" * 100).decode()
    assert image_size(decode_head(data)) == (1024, 768, True)


@pytest.mark.parametrize("kind", HEADERS)
def test_a_header_cut_anywhere_is_no_trouble(kind: str) -> None:
    data = HEADERS[kind]
    for end in range(min(len(data), 60)):
        assert image_size(data[:end]).width > 0
    assert image_size(decode_head("@@ not base64 @@")) == (*DEFAULT_SIZE, False)


@pytest.mark.parametrize(
    ("url", "size"),
    [
        ("https://a.example/x/800x400", (800, 400)), ("https://a.example/thumb/1200px-Tide.jpg", (1200, 800)),
        ("https://a.example/p?w=600", (600, 400)), ("https://a.example/jpg/360_F_1.jpg", (540, 360)),
        ("https://a.example/photo", DEFAULT_SIZE), ("https://a.example/2024/10/photo", DEFAULT_SIZE),
    ],
)  # fmt: skip
def test_an_address_may_tell_the_size(url: str, size: tuple[int, int]) -> None:
    assert image_size(b"", url) == (*size, False)


@pytest.mark.row("T3")
@pytest.mark.parametrize(
    ("model", "width", "height", "detail", "tokens"),
    [
        # Worked examples of platform.openai.com/docs/guides/images-vision
        ("gpt-4o", 1024, 1024, "high", 765), ("gpt-4o", 2048, 4096, "", 1105), ("gpt-4o", 4096, 8192, "low", 85),
        ("gpt-5-nano", 1024, 1024, "", 1536),
        # platform.claude.com/docs/en/build-with-claude/vision
        ("claude-sonnet-4-5", 200, 200, "", 54), ("claude-sonnet-4-5", 1000, 1000, "", 1334),
        # ai.google.dev/gemini-api/docs/tokens
        ("gemini-2.0-flash", 300, 384, "", 258),
    ],
)  # fmt: skip
def test_formulas_give_what_the_providers_say(model: str, width: int, height: int, detail: str, tokens: int) -> None:
    facts = load_tables()
    rule = facts.pictures[facts.find_family(model).media.picture]
    assert image_tokens(rule, width, height, detail) == pytest.approx(tokens, abs=1)


@pytest.mark.parametrize("name", load_tables().pictures)
def test_a_formula_never_falls_as_a_picture_grows(name: str) -> None:
    rule = load_tables().pictures[name]
    small = image_tokens(rule, 16, 16)
    assert 0 < small <= image_tokens(rule, 400, 400) + 1 <= image_tokens(rule, 1500, 1500) + 2
    assert image_tokens(rule, 60_000, 60_000) < 1e7


def test_detail_is_found_in_what_the_protocol_said() -> None:
    data, estimator = base64.b64encode(png(2048, 2048)).decode(), HybridTokenEstimator()
    fine, rough = (
        estimator.estimate_message(
            Message("user", [File(media="image/png", data=data, extra={"openai-chat": {"detail": detail}})]), "gpt-4o"
        ).tokens
        for detail in ("high", "low")
    )
    assert fine - rough == pytest.approx(680, abs=3)


@pytest.mark.row("T3")
def test_pages_of_a_pdf() -> None:
    page = b"1 0 obj << /Type /Page /Parent 2 0 R >> endobj\n"
    tree = b"2 0 obj << /Type /Pages /Count 7 >> endobj\n"
    packed = [base64.b64encode(b"%PDF-1.7\n" + body).decode() for body in (page * 3 + tree, tree, b"\0" * 120_000)]
    assert [count_pages(data) for data in packed] == [(3, True), (7, True), (3, False)]
    assert count_pages("") == (8, False)
