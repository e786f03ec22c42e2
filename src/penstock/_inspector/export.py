"""A trace as one HTML file that needs nothing else: the page with its script and style in it, and the traces as data.

For every consumer, so that the switch between them works; all but the first share its frames and events (`same`).
Secrets are gone before this. Nothing a model said can end the element it stands in, and the file's own policy lets no
script run but the page's.
"""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from html import escape
from typing import TYPE_CHECKING

from penstock._inspector.api import INDEX, NOT_BUILT, StaticFiles, encode_redacted
from penstock._inspector.traces import TraceSource, read_trace
from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock._inspector.schemas import Trace

MAX_EXPORT_BYTES = (
    64 * 2**20
)  # bytes of all traces together; consumers that there is no room for are left out, and that is said
ID = "penstock-trace"
_TAG = re.compile(r"<(?:script|link)\b([^<>]*+)>(?:</script>)?\s*")
_ATTRIBUTE = re.compile(r'\b([a-z]++)="([^"]*+)"')
_TITLE = re.compile(r"<title>[^<]*</title>")
_ASSET_PREFIX = re.compile(r"^.*?/?inspector/|^\./|^/")


def export_html(source: TraceSource, pages: StaticFiles, secrets: Iterable[str] = (), consumer: str = "") -> bytes:
    """The file. `consumer`: whose view it opens with."""
    if not pages.built:
        raise InputError(f"there is no page to put it in: {NOT_BUILT}")
    data = b'{"version":1,"traces":{%b}}' % b",".join(_encode_traces(source, list(secrets), consumer or source.own))
    return _fill_page(pages, source.title, data.replace(b"<", b"\\u003c").decode()).encode()


def _encode_traces(source: TraceSource, secrets: list[str], first: str) -> Iterator[bytes]:
    size = 0
    for consumer in (first, *(name for name in source.consumers if name != first)):
        trace: Trace = read_trace(source, consumer).trace()
        if consumer != first:
            trace.frames, trace.events, trace.same, trace.request, trace.row = [], [], first, "", None
        made = b"%b:%b" % (encode_redacted(consumer), encode_redacted(trace, secrets))
        size += len(made)
        if size > MAX_EXPORT_BYTES and consumer != first:
            return
        yield made


def _fill_page(pages: StaticFiles, title: str, data: str) -> str:
    """The built page, all that it asks for put in its place."""
    html = pages.text(INDEX)
    assets = [dict(_ATTRIBUTE.findall(attributes)) for attributes in _TAG.findall(html)]
    # Where these stand in a script they are parts of strings, which say the same with a backslash.
    script = (
        _join_assets(pages, [one["src"] for one in assets if "src" in one])
        .replace("</script", "<\\/script")
        .replace("<!--", "<\\!--")
    )
    styles = [one["href"] for one in assets if one.get("rel") == "stylesheet"]
    style = _join_assets(pages, styles).replace("</style", "<\\/style")
    policy = (
        f"default-src 'none'; script-src '{_csp_hash(script)}'; style-src '{_csp_hash(style)}'; img-src data: blob:; "
        "media-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    head = (
        f'<meta http-equiv="content-security-policy" content="{escape(policy)}">'
        f"<title>{escape(title)} · penstock</title><style>{style}</style>"
    )
    body = f'<script type="application/json" id="{ID}">{data}</script><script type="module">{script}</script>'
    bare = _TITLE.sub("", _TAG.sub(_remove_asset_tag, html))
    before, _, after = bare.partition("<head>")
    rest, _, end = after.rpartition("</body>")
    return f'{before}<head>\n    <meta charset="utf-8">{head}{rest}{body}</body>{end}'


def _remove_asset_tag(tag: re.Match[str]) -> str:
    """Nothing in place of what is put into the file, or not needed there; any other tag stays."""
    attributes = dict(_ATTRIBUTE.findall(tag[1]))
    return "" if "src" in attributes or attributes.get("rel") in {"stylesheet", "icon"} else tag[0]


def _join_assets(pages: StaticFiles, places: list[str]) -> str:
    return "\n".join(pages.text(_ASSET_PREFIX.sub("", place)) for place in places)


def _csp_hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
