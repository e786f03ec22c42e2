"""What penstock knows of providers and models: addresses, limits, prices, and who a model is. It asks nobody.

Run it from anywhere: `python examples/providers.py`. It needs no key and no network.
"""

from __future__ import annotations

from penstock.providers import (
    custom,
    detail,
    identify,
    max_input_tokens,
    models,
    provider,
    providers,
    read_model_list,
    url,
)

# Every provider is a row of data; an address is built from its row, and from settings where it has any.
print(f"{len(providers())} providers, {sum(len(models(name)) for name in providers())} models")
print(url(provider("anthropic"), "chat"))
print(url(provider("azure"), "chat", "gpt-5", env={"AZURE_RESOURCE_NAME": "tide"}))
print(url(provider("bedrock"), "chat", "amazon.nova-pro-v1:0", stream=True, settings={"region": "eu-west-1"}))

# Any OpenAI-compatible server is a row too.
mine = custom("mine", "http://localhost:9000/v1", quirks={"openai-chat": {"top_k": True}})
print(url(mine, "embeddings"))

# Who a model is, however its id is spelt.
for spelling in ("openai/gpt-4o-2024-11-20", "us.anthropic.claude-3-5-sonnet-20241022-v2:0", "mistral-large-2411"):
    who = identify(spelling)
    print(f"{spelling}: {who.maker}'s {who.family}, version {who.version}, served by {who.provider}")

# A provider's own list goes before the facts, and every field says who told it.
(model,) = read_model_list(provider("openai"), {"data": [{"id": "gpt-4.1", "context_window": 500_000}]})
print(f"{model.id}: {detail(model)}")
print(f"  prompts of up to {max_input_tokens(model, 0.8):,} tokens; {model.source}")
