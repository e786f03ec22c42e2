"""`penstock doctor`: what is configured, which keys are there, who can be reached; `--error FILE` explains a saved one.

Keys are never shown, only whether they are there. Asks providers for nothing but their list of models.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

import msgspec

from penstock._cli.common_options import add_config_option, load_config
from penstock._http_errors import read_http_error
from penstock._jsontext import parse_lenient
from penstock._lenient_fields import as_object, get_integer
from penstock._redaction import redact, redact_headers
from penstock.errors import InputError, ProviderError, provider_error

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterator

    from penstock._engines.router import Router
    from penstock._providers.registry import Provider

EPILOG = """\
examples:
  penstock doctor
  penstock doctor --offline --json
  penstock doctor --error failed.json

An error is saved as the body, as {"status": 429, "headers": {…}, "body": …}, or as `curl -i` prints it.
Exit code: 0 where everything that is configured works; 1 where something does not; 2 for input that is no use.
"""
PACKAGES = ("aiohttp", "msgspec", "openai", "anthropic", "google-genai", "botocore", "google-auth", "uvloop", "rich")
FAILED = 1
_TIMEOUT = 10.0


def add_arguments(parser: ArgumentParser) -> None:
    """The command's options."""
    parser.epilog = EPILOG
    add_config_option(parser)
    parser.add_argument("--offline", action="store_true", help="ask nobody")
    parser.add_argument("--json", action="store_true", help="the findings as JSON")
    parser.add_argument("--error", metavar="FILE", help="explain a saved error, - is standard input, and do no more")


def run(options: Namespace) -> int:
    """Look at everything, and tell."""
    if options.error:
        return _explain_error(options.error)
    import asyncio

    from penstock._engines.router import Router

    router = Router(load_config(options).engine)
    rows = asyncio.run(_check_all(router, offline=options.offline))
    if options.json:
        import msgspec

        print(msgspec.json.format(msgspec.json.encode(rows), indent=2).decode())
    else:
        for line in _report_lines(rows):
            print(line)
    return FAILED if any(row.get("ok") is False for row in rows["providers"]) else 0


# ── a saved error ─────────────────────────────────────────────────────────────────────────────────


def _explain_error(place: str) -> int:
    from pathlib import Path

    from penstock.errors import explain

    data = sys.stdin.buffer.read() if place == "-" else Path(place).read_bytes()
    print(explain(parse_saved_error(data, place)))
    return 0


# ── findings ──────────────────────────────────────────────────────────────────────────────────────


async def _check_all(router: Router, *, offline: bool) -> dict[str, Any]:
    import asyncio
    import platform

    from penstock._engines.model_resolution import list_configured_providers
    from penstock._version import __version__

    rows = list_configured_providers(router.config, router.env)
    try:
        checked = await asyncio.gather(*(_check_provider(router, row, offline=offline) for row in rows))
    finally:
        await router.aclose()
    return {
        "penstock": __version__,
        "python": platform.python_version(),
        "packages": _package_versions(),
        "aliases": dict(router.config.aliases),
        "proxy": _proxy_url(router),
        "providers": list(checked),
    }


def _package_versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    found: dict[str, str] = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def _proxy_url(router: Router) -> str:
    from penstock._engines.options import RequestOptions
    from penstock._http.proxy_and_tls import proxy_for
    from penstock._redaction import redact

    return redact(proxy_for("https://example.com", RequestOptions.read(router.config.options), router.env) or "none")


async def _check_provider(router: Router, row: Provider, *, offline: bool) -> dict[str, Any]:
    from penstock._engines.config import choose_engine
    from penstock._engines.credentials import find_stored_key

    account = router.config.account(row.name)
    keys = [name for name in (account.env, *row.env) if name and router.env.get(name)]
    if not keys and find_stored_key(row, account, router.env).key:
        keys = ["stored by penstock setup"]
    engine, who = choose_engine(row.name, router.config, router.env)
    told: dict[str, Any] = {
        "name": row.name,
        "key": "in the configuration" if account.key else ", ".join(keys[:1]) or "none",
        "engine": f"{engine} ({who})",
        "protocol": row.protocol,
    }
    if offline:
        return told
    return {**told, **await _check_reachable(router, row)}


async def _check_reachable(router: Router, row: Provider) -> dict[str, Any]:
    from penstock._client.api import Client
    from penstock._engines.options import RequestOptions, Timeouts
    from penstock.errors import PenstockError

    limits = Timeouts(connect=_TIMEOUT, first_byte=_TIMEOUT, between_bytes=_TIMEOUT, total=2 * _TIMEOUT)
    if row.endpoint("models") is None:
        return {"ok": None, "said": "it has no list of models to ask for"}
    try:
        found = await Client(router=router).list_models(row.name, options=RequestOptions(timeouts=limits))
    except PenstockError as error:
        return {"ok": False, "said": str(error), "hint": getattr(error, "hint", "")}
    return {"ok": True, "said": f"{len(found)} models"}


def _report_lines(found: dict[str, Any]) -> Iterator[str]:
    yield f"penstock {found['penstock']}, Python {found['python']}, proxy {found['proxy']}"
    yield "packages: " + ", ".join(f"{name} {version}" for name, version in found["packages"].items())
    if found["aliases"]:
        yield "aliases: " + ", ".join(found["aliases"])
    if not found["providers"]:
        yield "no provider is configured: only packaged streams answer (replay/…); `penstock setup` adds a key"
    for row in found["providers"]:
        mark = {True: "ok  ", False: "FAIL", None: "?   "}[row.get("ok")]
        yield f"{mark} {row['name']}: key {row['key']}, engine {row['engine']}, {row.get('said', 'not asked')}"
        if row.get("hint"):
            yield f"       {row['hint']}"


_STATUS = re.compile(r"HTTP/[\d.]+ (\d{3})")


def parse_saved_error(data: bytes, place: str) -> ProviderError:
    """The error that a file tells of."""
    if not data.strip():
        raise InputError(f"{place}: there is nothing in it")
    status, headers, body = _parse_curl_output(data) or _parse_error_object(data) or (None, {}, data)
    fault = read_http_error(status, headers, body)
    shown = redact(_format_body(body))
    return provider_error(fault, body=shown, headers=redact_headers(headers))


def _parse_curl_output(data: bytes) -> tuple[int | None, dict[str, str], bytes] | None:
    """What `curl -i` prints: a status line, headers, a blank line, the body. Of several heads the last one counts."""
    rest, found = data, None
    while (head := _STATUS.match(rest[:20].decode("latin-1"))) is not None:
        lines, _, rest = rest.replace(b"\r\n", b"\n").partition(b"\n\n")
        rows = (line.partition(":") for line in lines.decode("latin-1").splitlines()[1:])
        found = (int(head[1]), {name.strip().lower(): value.strip() for name, _, value in rows})
    return (*found, rest) if found else None


def _parse_error_object(data: bytes) -> tuple[int | None, dict[str, str], bytes] | None:
    """An object with a status and a body."""
    value = as_object(parse_lenient(data))
    if "body" not in value or not ({"status", "status_code", "headers"} & set(value)):
        return None
    body: Any = value["body"]
    headers = {str(name).lower(): str(one) for name, one in as_object(value.get("headers")).items()}
    raw = body.encode() if isinstance(body, str) else msgspec.json.encode(body)
    return get_integer(value, "status") or get_integer(value, "status_code"), headers, raw


def _format_body(body: bytes) -> str:
    value = parse_lenient(body)
    if value is None:
        return body[:20_000].decode("utf-8", "replace")
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
