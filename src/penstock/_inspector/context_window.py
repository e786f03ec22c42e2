"""The context window of a turn's model. The provider may be gone since."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock._engines.model_resolution import Target
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from penstock._gateway.services import Services
    from penstock._inspector.schemas import TurnRow


def find_context_window(services: Services, row: TurnRow) -> int:
    """Returns the context window of the model that answered, or that was asked for; 0 if it is not known."""
    catalogue, config = services.catalogue, services.upstream.router.config
    window = 0
    if row.provider and config.has(row.provider):
        model = catalogue.target_model(Target(config.provider(row.provider), row.model, ""))
        window = model.context or model.max_input
    try:
        return window or catalogue.target_model(catalogue.target(row.asked)).context
    except PenstockError:
        return 0
