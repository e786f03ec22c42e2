"""AWS Signature Version 4, checked as AWS does it: from the request alone and the secret, by nothing of botocore's."""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from penstock.testing import ReceivedRequest

_HEADER = re.compile(
    r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d+)/([^/]+)/([^/]+)/aws4_request, SignedHeaders=([^,]+), Signature=(\w+)"
)


def verified(seen: ReceivedRequest, secret: str) -> tuple[str, str, str]:
    """The key id, region and service that a request was rightly signed for."""
    found = _HEADER.fullmatch(seen.headers["authorization"])
    assert found, seen.headers["authorization"].partition("Credential")[0]
    key, day, region, service, names, signature = found.groups()
    assert "host" in names.split(";")
    headers = "".join(f"{name}:{' '.join(seen.headers[name].split())}\n" for name in names.split(";"))
    query = "&".join(sorted(seen.query.split("&"))) if seen.query else ""
    body = hashlib.sha256(seen.body).hexdigest()
    canonical = "\n".join([seen.method, quote(seen.path, safe="/~"), query, headers, names, body])
    scope = f"{day}/{region}/{service}/aws4_request"
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    text = "\n".join(["AWS4-HMAC-SHA256", seen.headers["x-amz-date"], scope, digest])
    made = f"AWS4{secret}".encode()
    for word in (day, region, service, "aws4_request"):
        made = hmac.new(made, word.encode(), hashlib.sha256).digest()
    assert hmac.new(made, text.encode(), hashlib.sha256).hexdigest() == signature
    return key, region, service
