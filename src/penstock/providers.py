"""The providers, their models and their clients, as data. The rows are TOML; nothing here asks anybody anything."""

from penstock._providers.model_identity import Identity, identify
from penstock._providers.model_lists import read_model_list
from penstock._providers.models import Model, Policy, detail, max_input_tokens, model, models, output_limit
from penstock._providers.registry import (
    ClientProfile,
    ConfiguredModel,
    Credential,
    Endpoint,
    Operation,
    Prices,
    Provider,
    Retry,
    Setting,
    Special,
    client,
    clients,
    custom,
    provider,
    providers,
)
from penstock._providers.thinking import Thinking, thinking_in_form, thinking_of
from penstock._providers.urls import endpoint_url, fill_template, url

__all__ = [
    "ClientProfile",
    "ConfiguredModel",
    "Credential",
    "Endpoint",
    "Identity",
    "Model",
    "Operation",
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
    "fill_template",
    "identify",
    "max_input_tokens",
    "model",
    "models",
    "output_limit",
    "provider",
    "providers",
    "read_model_list",
    "thinking_in_form",
    "thinking_of",
    "url",
]
