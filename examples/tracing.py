"""What a program does with models, in its log and in OpenTelemetry spans, without the content of messages.

`python examples/tracing.py openai/gpt-5` asks that model. Without an argument a packaged model answers: no key, no
network. Needs the extra `otel`. Spans are created because this program imports OpenTelemetry; its SDK says where they
go.
"""

import asyncio
import logging
import sys

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

import penstock
from penstock.client import CallReport

log = logging.getLogger("my.app")


def log_request(request: penstock.Request) -> None:
    log.info("%s is asked, %d messages", request.model, len(request.messages))


def log_end(report: CallReport) -> None:
    usage = report.usage or penstock.Usage()
    log.info("%s: %s tokens in, %s out, %s", report.model, usage.input, usage.output, report.error or report.cost)


def read_gauge(station: str) -> str:
    """Read the level of the water."""
    return f"{station}: 3.2 m"


async def ask(client: penstock.Client, model: str) -> str:
    run = await client.run(model, "How high is the water at the upper gate?", tools=[read_gauge])
    return run.output


async def main(model: str = "replay/agent") -> None:
    logging.basicConfig(level=logging.INFO, stream=sys.stdout)
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter()))
    trace.set_tracer_provider(provider)
    async with penstock.Client(on_request=log_request, on_finish=log_end) as client:
        print(await ask(client, model))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
