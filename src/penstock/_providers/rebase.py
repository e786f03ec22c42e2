"""Moves the URL of a vendor's endpoint to another base URL, such as that of a custom provider.

Keys and prompts for one server must not go to another: the result always begins with the other base URL's host.
"""

from __future__ import annotations

from penstock._lazy_patterns import lazy_pattern

_ORIGIN = lazy_pattern(r"https?://[^/]*|\{[a-z_]+\}")  # a setting may hold the whole origin
_VERSION = lazy_pattern(r"v[0-9][a-z0-9]*+")


def rebase_url(url: str, vendor: str, base_url: str) -> str:
    """Returns `url`, which belongs to the base URL `vendor`, as it is at `base_url`.

    Only a base URL that ends as the vendor's does has the vendor's other paths. Others have all paths below them.

    Examples:
        >>> rebase_url("https://api.cohere.com/v1", "https://api.cohere.com/v2", "http://own.example/cohere/v2")
        'http://own.example/cohere/v1'
        >>> rebase_url("https://api.cohere.com/v1", "https://api.cohere.com/v2", "http://own.example/api")
        'http://own.example/api'
    """
    base_url = base_url.rstrip("/")
    (url_origin, url_path), (vendor_origin, vendor_path) = _split_path(url), _split_path(vendor)
    origin, path = _split_path(base_url)
    if not origin or url_origin != vendor_origin:
        return base_url
    shared = 0
    while shared < min(len(url_path), len(vendor_path)) and url_path[shared] == vendor_path[shared]:
        shared += 1
    replaced, added = vendor_path[shared:], url_path[shared:]
    kept = len(path) - len(replaced)
    if kept < 0 or path[kept:] != replaced:
        return base_url
    if not replaced and path[-1:] != vendor_path[-1:] and _VERSION.fullmatch("".join(path[-1:])):
        return base_url  # `/v1` of another server: the vendor's paths are not below it
    return "/".join([origin, *path[:kept], *added])


def _split_path(url: str) -> tuple[str, list[str]]:
    """Returns the origin of a URL, and the segments of its path. Settings in braces are not filled in."""
    found = _ORIGIN.match(url)
    if found is None:
        return "", []
    return found[0], [segment for segment in url[found.end() :].split("/") if segment]
