"""The providers, their models and their clients, as data. The rows are TOML; nothing here asks anybody anything."""

from penstock.providers.address import endpoint_url, filled, url
from penstock.providers.clients import Client, client, clients
from penstock.providers.identity import Identity, identify
from penstock.providers.listing import listed
from penstock.providers.models import Model, Policy, detail, max_input_tokens, model, models, output_limit
from penstock.providers.own_models import OwnModel, Prices
from penstock.providers.registry import (
    Credential,
    Endpoint,
    Operation,
    Provider,
    Retry,
    Setting,
    Special,
    custom,
    provider,
    providers,
)
from penstock.providers.thinking import Thinking, thinking_in_form, thinking_of

__all__ = [
    "Client",
    "Credential",
    "Endpoint",
    "Identity",
    "Model",
    "Operation",
    "OwnModel",
    "Policy",
    "Prices",
    "Provider",
    "Retry",
    "Setting",
    "Special",
    "Thinking",
    "client",
    "clients",
    "custom",
    "detail",
    "endpoint_url",
    "filled",
    "identify",
    "listed",
    "max_input_tokens",
    "model",
    "models",
    "output_limit",
    "provider",
    "providers",
    "thinking_in_form",
    "thinking_of",
    "url",
]
