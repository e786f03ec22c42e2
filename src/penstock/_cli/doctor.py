"""`penstock doctor`: reports what is configured and which providers answer; `--error FILE` explains a saved error.

It shows whether a key is there, never the key. It asks providers only for their list of models.
"""

from __future__ import annotations

import asyncio
import platform
import re
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from penstock._cli.common_options import load_provider_config
from penstock._cli.terminal import print_json
from penstock._client.api import Client
from penstock._engines.config import choose_engine
from penstock._engines.credentials import find_stored_key
from penstock._engines.model_resolution import list_configured_providers
from penstock._engines.router import Router
from penstock._http.proxy_and_tls import proxy_for
from penstock._http.request_options import RequestOptions, Timeouts
from penstock._http_errors import read_http_error
from penstock._lenient_fields import as_object, get_integer
from penstock._lenient_json import parse_lenient
from penstock._printable_text import printable, printable_lines
from penstock._redaction import redact, redact_headers
from penstock._version import __version__
from penstock.errors import InputError, PenstockError, ProviderError, explain, provider_error

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from penstock._engines.config import Account
    from penstock._providers.registry import Provider

PACKAGES = "aiohttp msgspec openai anthropic google-genai botocore google-auth uvloop rich".split()
FAILED = 1
_TIMEOUT = 10.0


def run_doctor(options: Namespace) -> int:
    """Checks everything and prints a report."""
    if options.error:
        data = sys.stdin.buffer.read() if options.error == "-" else Path(options.error).read_bytes()
        _explain_error(_parse_saved_error(data, options.error), as_json=options.json)
        return 0
    router = Router(load_provider_config(options).engine)
    rows = asyncio.run(_check_all(router, offline=options.offline))
    if options.json:
        print_json(rows)
    else:
        print(*map(printable, _report_lines(rows)), sep="\n")
    return FAILED if any(row.get("ok") is False for row in rows["providers"]) else 0


def _explain_error(error: ProviderError, *, as_json: bool) -> None:
    if not as_json:
        print(printable_lines(explain(error)))
        return
    names = ("kind", "status", "message", "code", "request_id", "retry_after", "hint")
    known = {name: getattr(error, name, None) for name in names}
    print_json({"type": type(error).__name__, **known, "explanation": explain(error)})


async def _check_all(router: Router, *, offline: bool) -> dict[str, Any]:
    rows = list_configured_providers(router.config, router.env)
    try:
        checked = await asyncio.gather(*(_check_provider(router, row, offline=offline) for row in rows))
    finally:
        await router.aclose()
    proxy = proxy_for("https://example.com", RequestOptions.read(router.config.options), router.env)
    return {
        "penstock": __version__,
        "python": platform.python_version(),
        "packages": _package_versions(),
        "aliases": {name: msgspec.to_builtins(alias) for name, alias in router.config.aliases.items()},
        "proxy": redact(proxy or "none"),
        "providers": list(checked),
    }


def _package_versions() -> dict[str, str]:
    found: dict[str, str] = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def _describe_keys(account: Account, names: list[str]) -> str:
    """Returns where the keys are: in the file, or in which variables."""
    if account.key or account.keys:
        return "in the configuration"
    return ", ".join(names[: max(1, len(account.variables))]) or "none"


async def _check_provider(router: Router, row: Provider, *, offline: bool) -> dict[str, Any]:
    account = router.config.account(row.name)
    keys = [name for name in (*account.variables, *row.env) if router.env.get(name)]
    if not keys and find_stored_key(row, account, router.env).key:
        keys = ["stored by penstock setup"]
    engine, who = choose_engine(row.name, router.config, router.env)
    state = {
        "name": row.name,
        "key": _describe_keys(account, keys),
        "engine": f"{engine} ({who})",
        "protocol": row.protocol,
    }
    return state if offline else {**state, **await _check_reachable(router, row)}


async def _check_reachable(router: Router, row: Provider) -> dict[str, Any]:
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


def _parse_saved_error(data: bytes, name: str) -> ProviderError:
    if not data.strip():
        raise InputError(f"{name}: there is nothing in it")
    status, headers, body = _parse_curl_output(data) or _parse_error_object(data) or (None, {}, data)
    fault = read_http_error(status, headers, body)
    return provider_error(fault, body=redact(_format_body(body)), headers=redact_headers(headers))


def _parse_curl_output(data: bytes) -> tuple[int | None, dict[str, str], bytes] | None:
    """Reads the output of `curl -i`: status line, headers, blank line, body. Of several heads the last one counts."""
    rest, found = data, None
    while (head := _STATUS.match(rest[:20].decode("latin-1"))) is not None:
        lines, _, rest = rest.replace(b"\r\n", b"\n").partition(b"\n\n")
        rows = (line.partition(":") for line in lines.decode("latin-1").splitlines()[1:])
        found = (int(head[1]), {name.strip().lower(): value.strip() for name, _, value in rows})
    return (*found, rest) if found else None


def _parse_error_object(data: bytes) -> tuple[int | None, dict[str, str], bytes] | None:
    """Reads an object with a status and a body."""
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
