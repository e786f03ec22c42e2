"""A provider with a base URL of its own sends nothing to the host of the vendor that it is like."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, get_args
from urllib.parse import urlsplit

from penstock import Client, RequestOptions
from penstock.gateway import Account, Config
from penstock.providers import Operation, custom, provider, url
from penstock.testing import Reply, scripted
from tests.client.providers.provider_settings import ASKED, ENV, MODEL
from tests.support.client_parts import (
    CustomProvider,
    EditorProvider,
    Target,
    list_templates,
    make_account,
    start_request,
)
from tests.support.each_case import each

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.providers import Model, Provider

OWN = ("http://10.0.0.5:8000", "http://10.0.0.5:8000/v1", "http://10.0.0.5:8000/mine/v2/", "http://10.0.0.5:8000/ai/v1")
MODELS = (MODEL, "claude-tide", "mistral-tide", "gpt-5-codex", "meta/tide", "tide-maas", "deepseek-chat")


def foreign_urls(name: str, account: Account) -> list[str]:
    """The URLs of all operations that lead to another host than the account's."""
    row = Config(providers={name: account}).provider(name)
    return [one for one in _urls(row, account) if urlsplit(one).netloc != urlsplit(account.base_url).netloc]


def _urls(row: Provider, account: Account) -> Iterator[str]:
    options = RequestOptions()
    for operation in get_args(Operation):
        for model in MODELS:
            endpoint = row.endpoint(operation, model)
            for stream in (False, True) if endpoint is not None else ():
                assert endpoint is not None
                request = start_request(
                    Target(row, model, "a test"),
                    operation,
                    endpoint,
                    options=options,
                    account=account,
                    env=ENV,
                    stream=stream,
                )
                yield from (request.url, request.base_url)


def settings_of(row: Provider) -> dict[str, str]:
    return {name: "tide" for name in row.settings if not name.endswith("_url")}


@each("base_url", OWN)
def test_a_provider_of_the_configuration_stays_at_its_host(base_url: str) -> None:
    """With the settings of the vendor, so that no URL is left out because one is missing."""
    for row in ASKED:
        like = Account(base_url=base_url, like=row.name, settings=settings_of(row))
        assert (row.name, foreign_urls("mine", like)) == (row.name, [])
        same_name = Account(base_url=base_url, settings=settings_of(row))
        assert (row.name, foreign_urls(row.name, same_name)) == (row.name, [])


@each("base_url", OWN)
def test_a_custom_provider_stays_at_its_host(base_url: str) -> None:
    for row in list_templates():
        account = make_account(CustomProvider(base_url=base_url.rstrip("/"), like=row.name))
        assert (row.name, foreign_urls("mine", account)) == (row.name, [])


@each("keys", [(), ("key-of-the-editor",)])
@each("base_url", OWN)
def test_a_provider_of_an_editor_stays_at_its_host(base_url: str, keys: tuple[str, ...]) -> None:
    for row in ASKED:
        given = EditorProvider(name=row.name, keys=keys, base_url=base_url, settings=settings_of(row))
        assert (row.name, foreign_urls(row.name, given.account(Account()))) == (row.name, [])


def test_no_key_is_exchanged_at_the_vendor() -> None:
    """The address where a key is exchanged for a token is a setting, which a custom provider does not take over."""
    own = custom("mine", OWN[0], like="watsonx")
    assert own.credentials[0].token_url.startswith("{iam_url}")
    assert not own.settings


@each(
    "like, operation, base_url, expected",
    [
        ("cohere", "models", "http://own.example/v2", "http://own.example/v1/models?page_size=1000"),
        ("cohere", "models", "http://own.example/co/v2/", "http://own.example/co/v1/models?page_size=1000"),
        ("cohere", "models", "http://own.example/api", "http://own.example/api/models?page_size=1000"),
        ("cohere", "chat", "http://own.example/v2", "http://own.example/v2/chat"),
        ("deepseek", "fim", "http://own.example", "http://own.example/beta/completions"),
        ("deepseek", "completions", "http://own.example/proxy", "http://own.example/proxy/beta/completions"),
        ("deepseek", "fim", "http://own.example/v1", "http://own.example/v1/completions"),
    ],
)
def test_the_vendors_paths_are_kept(like: str, operation: str, base_url: str, expected: str) -> None:
    """Both for a custom provider and for the vendor's own name with another base URL."""
    assert url(custom("mine", base_url, like=like), operation, MODEL) == expected
    assert url(provider(like), operation, MODEL, base_url=base_url) == expected


def test_an_endpoint_that_the_configuration_names_stays() -> None:
    """Whoever writes the configuration may give one operation another server."""
    fields = {"endpoints": {"models": {"base_url": "http://lists.example/v1"}}}
    row = custom("mine", "http://own.example/v2", like="cohere", **fields)
    assert url(row, "models") == "http://lists.example/v1/models?page_size=1000"


async def list_models(account: Account) -> list[Model]:
    async with Client(Config(providers={"mine": account}), env={}) as client:
        return await client.list_models("mine")


def test_the_list_of_models_is_asked_of_the_own_server() -> None:
    """The key goes there too."""
    with scripted(lambda _: Reply.body({"models": [{"name": "tide-1"}]})) as up:
        account = Account(base_url=f"{up.url}/v2", like="cohere", key="key-of-the-own-server")
        assert [one.id for one in asyncio.run(list_models(account))] == ["tide-1"]
    (seen,) = up.requests
    assert seen.path == "/v1/models"
    assert seen.headers["authorization"] == "Bearer key-of-the-own-server"
