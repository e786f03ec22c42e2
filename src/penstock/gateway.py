"""The gateway as an ASGI application, for programs that run it themselves. It needs the extra `serve`.

    app = App(GatewayConfig())  # `uvicorn module:app` serves it

`penstock serve` does the same from the command line. docs/gateway.md describes it.
"""

from penstock._engines.config import Account, Config
from penstock._gateway import HOST, PORT
from penstock._gateway.app import App
from penstock._gateway.config import GatewayConfig, JournalTable, StateTable, load_config
from penstock._inspector.app import Inspector

__all__ = [
    "HOST",
    "PORT",
    "Account",
    "App",
    "Config",
    "GatewayConfig",
    "Inspector",
    "JournalTable",
    "StateTable",
    "load_config",
]
