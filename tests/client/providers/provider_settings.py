"""Settings, keys and a model for every provider, for tests."""

from __future__ import annotations

from penstock.providers import Provider, providers

ENV = {
    "AZURE_RESOURCE_NAME": "tide", "AWS_REGION": "eu-west-1", "GOOGLE_CLOUD_PROJECT": "isle", "WATSONX_PROJECT_ID": "p-1",
    "CLOUDFLARE_ACCOUNT_ID": "acc0", "DATABRICKS_HOST": "dbc.example", "OPENAI_COMPATIBLE_BASE_URL": "https://own.example/v1",
}  # fmt: skip
MODEL = "tide-1"
ASKED = [row for row in providers().values() if row.engine == "native"]


def name_of(row: Provider) -> str:
    return row.name
