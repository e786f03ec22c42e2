"""Write addresses.txt anew: python -m tests.client.providers.addresses_rewrite, then read the difference."""

from __future__ import annotations

from pathlib import Path

from penstock.providers import Provider, endpoint_url, url
from tests.client.providers.provider_settings import ASKED, ENV, MODEL

FILE = Path(__file__).with_name("addresses.txt")


def lines(row: Provider) -> list[str]:
    """An address for each operation, for streams where that is another, and for models that go elsewhere."""
    made: list[str] = []
    for operation, endpoint in row.endpoints.items():
        made.append(f"{row.name} {operation} {url(row, operation, MODEL, env=ENV)}")
        if endpoint.stream:
            made.append(f"{row.name} {operation}/stream {url(row, operation, MODEL, stream=True, env=ENV)}")
    for special in row.special:
        model = special.models[0].replace("*", "tide")
        place = f"{row.name} {special.operation}/{model}"
        whole, streamed = (
            endpoint_url(row, special.endpoint, model, stream=stream, env=ENV) for stream in (False, True)
        )
        made += [f"{place} {whole}", f"{place}/stream {streamed}"]
    return made


if __name__ == "__main__":
    FILE.write_text("\n".join(line for row in ASKED for line in lines(row)) + "\n", encoding="utf-8")
