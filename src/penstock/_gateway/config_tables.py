"""Tables of the gateway's configuration that concern turns: fetched files, resumable streams, the cache, prices."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec

from penstock._providers.registry import ConfiguredPrices

MIB = 2**20
Factor: TypeAlias = Annotated[float, msgspec.Meta(ge=0)]


class ConfigTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A table of the file. An unknown key is an error."""


class FetchTable(ConfigTable, frozen=True):
    """Fetching of files that are given by their address. Only public addresses of http and https are asked.

    `requests`: "needed" fetches for providers that take no addresses, "all" for every provider. `streams`: files of
    answers become data for VS Code clients. Sizes in bytes, times in seconds.
    """

    requests: Literal["off", "needed", "all"] = "off"
    streams: bool = False
    size: int = 20 * MIB  # of one file
    seconds: float = 15.0  # for one file, redirects included
    redirects: int = 3
    files: int = 32  # of one request, and of one stream


class ResumeTable(ConfigTable, frozen=True):
    """Streams that can be resumed and followed. Background responses always can. Sizes in bytes, times in seconds.

    `background_on_disconnect`: a turn goes on if its client disconnects; otherwise that cancels it.
    """

    enabled: bool = False  # false: only for clients that ask for it
    background_on_disconnect: bool = False
    keep: float = 300.0  # after the end of a stream
    size: int = 32 * MIB  # of one stream; nothing is kept of a longer one
    total: int = 256 * MIB  # of all streams in the memory of this process


class CacheTable(ConfigTable, frozen=True):
    """Answers that are stored and sent again for an equal request. Off unless `aliases` or `keys` names something.

    `aliases` and `keys` are patterns: models as clients name them, and gateway keys. `path`: a SQLite file; empty: in
    Redis if `stores.redis` is set, else in memory. `shared`: tenants get each other's answers.
    """

    aliases: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    ttl: float = 3600.0  # seconds
    size: int = 64 * MIB  # bytes of all answers
    pace: float = 0.0  # seconds between two words of a stored answer that is streamed
    shared: bool = False
    path: str = ""


class RecordTable(ConfigTable, frozen=True):
    """Streams saved to `path`, a folder; none without. `size` bounds one, `total` all of them, `days` their age."""

    path: str = ""
    size: int = 16 * MIB
    total: int = 1024 * MIB
    days: float = 30.0


class InspectorTable(ConfigTable, frozen=True):
    """What the inspector keeps on disk. `keep`: turns with their prompts and answers, without secrets."""

    keep: bool = False
    size: int = 256 * MIB  # bytes of the file; the oldest turns are deleted first
    days: float = 7.0  # that a turn is kept


class PricesTable(ConfigTable, frozen=True):
    """Prices in dollars for a million tokens. `models`: by name or pattern. They replace those of the table of models.

    `unknown`: what happens with models without a price where cost is limited; "flat" uses the prices of `flat`.
    `factors`: on these prices, by the tier of service, speed or country that a request asks for.
    """

    unknown: Literal["refuse", "flat", "free"] = "refuse"
    flat: ConfiguredPrices | None = None
    models: dict[str, ConfiguredPrices] = {}
    factors: dict[str, Factor] = {}
