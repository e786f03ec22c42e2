"""Targets for text from outside: error bodies of providers, redaction, pictures."""

from __future__ import annotations

import base64
import re
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

from fuzz.mutation import BytesMutator, JsonMutator
from fuzz.stream_targets import seeds_of
from fuzz.target import Target, Verdict, pick, promise
from penstock._http_errors import read_http_error
from penstock._media import sniff_media_type
from penstock._redaction import MARK, find_secrets, redact, redact_headers
from penstock._tokens.file_costs import count_pages, image_size
from tests.support import run_streams as running

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuzz.mutation import Mutator
    from fuzz.target import Check

SECRET = "made-up-secret-77"  # noqa: S105 — made up, to be found in the output
LONGEST = 2_000  # characters of a text that are redacted; what time longer ones take is measured elsewhere
STATUSES = (None, 400, 401, 403, 404, 413, 422, 429, 500, 503, 529, 302)
NAMES = ("retry-after", "retry-after-ms", "x-amzn-errortype", "date", "x-request-id", "x-ratelimit-reset-after")


def check_error_body(data: bytes) -> Verdict:
    """Any body of any status becomes a fault with a bounded message, without the secret."""
    status = pick(data, STATUSES, 3)
    headers = {name: data[-20:].decode("latin-1") for name in NAMES if pick(data, range(3), len(name)) == 0}
    fault = read_http_error(status, headers, data, [SECRET])
    promise(fault.message, "a fault without a message")
    promise(len(fault.message) < 20_000, "a message without end")
    promise(SECRET not in fault.message + fault.code, "the secret is shown")
    promise(fault.retry_after is None or fault.retry_after >= 0, f"a wait of {fault.retry_after} seconds")
    return bool(fault.extra), (fault.kind, status, bool(fault.code), fault.retry_after is not None)


def check_redaction(data: bytes) -> Verdict:
    """A known secret never stays, redaction adds nothing but marks, and doing it twice changes nothing."""
    text = data[:LONGEST].decode("utf-8", "replace")
    shown = redact(text, [SECRET])
    promise(SECRET not in shown, "the secret is shown")
    promise(redact(shown, [SECRET]) == shown, f"redacted twice it is another text: {shown[:80]!r}")
    spans = find_secrets(text, [SECRET])
    promise(all(0 <= first < last <= len(text) for first, last in spans), "a span outside the text")
    promise(all(one[1] < two[0] for one, two in pairwise(spans)), "spans overlap")
    promise(
        SECRET not in str(redact_headers({"x-a": text, text[:30]: "b"}, [SECRET]).values()), "a header shows the secret"
    )
    return MARK in shown, (shown.count(MARK) > 1, len(spans), len(re.findall(r"\W", text)) > 20)


def check_picture(data: bytes) -> Verdict:
    """A size is found for any bytes, and it is a size."""
    size = image_size(data)
    promise(size.width >= 0 and size.height >= 0, f"a size of {size}")
    packed = base64.b64encode(data).decode()
    count, _ = count_pages(packed)
    promise(count >= 0, f"{count} pages")
    return sniff_media_type(packed) != "", (sniff_media_type(packed), size.width > 0, count > 0)


# ── seeds ─────────────────────────────────────────────────────────────────────────────────────────

ERRORS: tuple[bytes, ...] = (
    b'{"error":{"message":"Incorrect API key provided: made-up-secret-77","type":"invalid_request_error","code":"invalid_api_key"}}',
    b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"req_1"}',
    b'{"error":{"code":429,"message":"Quota","status":"RESOURCE_EXHAUSTED","details":[{"@type":"x","retryDelay":"20s","reason":"R"}]}}',
    b'{"message":"Too many tokens","__type":"ThrottlingException"}', b'[{"error":{"message":"in a list"}}]', b"<html><title>502</title></html>",
    b'{"detail":[{"loc":["body"],"msg":"field required"}]}', b'"plain text"', b'{"errors":["a","b"]}', b"",
    b'{"error":{"message":"Provider returned error","metadata":{"raw":"{\\"error\\":{\\"message\\":\\"deep\\"}}"}}}',
    b'{"error":"try again in 3.5s"}',
)  # fmt: skip
TEXTS: tuple[bytes, ...] = (
    b"bad key sk-abcdefghijklmnop in the text", b"Authorization: Bearer abcdef.ghijkl-mnop", b"http://ann:pass@example.com/x",
    b'{"api_key": "made-up-secret-77", "password":"hunter22"}', b"AIzaSyA1234567890abcdefghijklmnop and ya29.a0AbCdEf1234",
    b"eyJhbGciOi.eyJzdWIiOjE.c2ln", b"AKIAIOSFODNN7EXAMPLE x-amz-signature=abcdef0123", b"\\nsk-abcdefghijklmnop\\u0020gsk_abcdefghij",
    b"nothing to hide here", b"?key=abcdefgh&secret=ijklmnop", b"Basic YW5uOnBhc3M= " * 3,
)  # fmt: skip
PICTURES: tuple[bytes, ...] = (
    b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x02\x00\x00\x00\x01\x00\x08\x06", b"GIF89a\x10\x00\x20\x00\xf0",
    b"\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00\xff\xc0\x00\x11\x08\x01\x00\x02\x00\x03",
    b"RIFF\x24\x00\x00\x00WEBPVP8 \x18\x00\x00\x00\x30\x01\x00\x9d\x01\x2a\x10\x00\x20\x00", b"RIFF\x24\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00",
    b"RIFF\x24\x00\x00\x00WEBPVP8L\x18\x00\x00\x00\x2f\x0f\xc0\x07", b"%PDF-1.4\n1 0 obj<</Type/Pages/Count 3>>\n/Type /Page\n",
)  # fmt: skip


@cache
def error_seeds() -> list[bytes]:
    whole = [body for name in running.sources() for body in seeds_of(name, streamed=False) if b"error" in body]
    return [*ERRORS, *(body for body in whole if len(body) < 4_000)]


def load_errors() -> tuple[Sequence[bytes], Mutator, Check]:
    return error_seeds(), JsonMutator(error_seeds()), check_error_body


def targets() -> list[Target]:
    """All targets of this module."""
    words = (
        SECRET.encode(),
        b"sk-",
        b"key=",
        b"Bearer ",
        b"://",
        b"@",
        b"AIza",
        b"eyJ",
        b'"password":"',
        b"-",
        b"_",
        b"\\n",
    )
    heads = (b"\xff\xc0", b"\xff\xd8", b"IHDR", b"VP8X", b"VP8L", b"VP8 ", b"/Count ", b"/Page")
    return [
        Target("error-body", "the body is a JSON object", load_errors),
        Target("redaction", "something is redacted", lambda: (TEXTS, BytesMutator(words), check_redaction)),
        Target("picture-size", "the kind of file is known", lambda: (PICTURES, BytesMutator(heads), check_picture)),
    ]
