"""Cassettes: exchanges with providers are recorded once and replayed from then on, without a network and without keys.

    with Cassette("tests/recordings/tide.json", "once") as cassette:
        client = cassette.sync_client()                                    penstock's own client
        openai.OpenAI(base_url=cassette.base_url("openai"), api_key="…")   or a vendor's SDK

Modes: `none` replays only; `once` records if there is no file; `new` also records what is not in the file; `all`
records everything anew. Secrets are removed before the file is written (`exchange_redaction`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock._testing.dialects import SDK_NAMES, sdk_variables
from penstock._testing.exchange_recorder import CassetteMode, ExchangeRecorder, UnrecordedRequest
from penstock._testing.recording_proxy import RecordingProxy

if TYPE_CHECKING:
    from penstock._client.api import Client
    from penstock._client.sync_client import SyncClient

__all__ = ["Cassette", "CassetteMode", "UnrecordedRequest"]


class Cassette(ExchangeRecorder):
    """Recorded exchanges, with clients that use them. `close` writes the file if something was recorded.

    `match`: `request` finds the exchange by method, path and body; `order` plays the exchanges one after the other and
    compares only method and path. `ignore` and `normalize` say what does not count in a body. `repeat` plays the last
    exchange of a request again and again. `timing` records when each chunk came, and waits as long when it is replayed.
    `secrets` are removed by value, beside the keys of requests and of the environment.
    """

    _proxy: RecordingProxy | None = None

    def client(self, config: Any = None, **options: Any) -> Client:
        """Returns a `Client` whose requests are recorded or replayed. To replay, it needs no keys."""
        from penstock._testing.recorded_transport import recorded_client  # noqa: PLC0415 — it imports the engines

        return recorded_client(self, config, options)

    def sync_client(self, config: Any = None, **options: Any) -> SyncClient:
        """Returns a `SyncClient` of the same kind."""
        from penstock._testing.recorded_transport import recorded_sync_client  # noqa: PLC0415 — as above

        return recorded_sync_client(self, config, options)

    def base_url(self, name: str = "openai", *, upstream: str = "") -> str:
        """Returns the base URL for a vendor's SDK: a server on this machine that records and replays.

        `upstream` is the provider's own address, scheme and host, if it is not the usual one.
        """
        if self._proxy is None:
            self._proxy = RecordingProxy(self)
        return self._proxy.base_url(name, upstream)

    def sdk_environment(self) -> dict[str, str]:
        """Returns environment variables that point the vendors' SDKs at this cassette. Keys are made up to replay."""
        names = [name for name in SDK_NAMES if name != "bedrock"]  # its address depends on the region
        return sdk_variables({name: self.base_url(name) for name in names}, keys=not self.records)

    def close(self) -> None:
        """Stops the server and writes the file, if something was recorded."""
        if self._proxy is not None:
            self._proxy.close()
            self._proxy = None
        super().close()
