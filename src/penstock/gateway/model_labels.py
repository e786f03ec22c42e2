"""Which model names become label values of metrics. Clients choose them, so their number is bounded.

Configured models always have series of their own. Models that a list knows and that have answered share a large budget.
Those that a list knows but that only failed so far, and unknown ones that have answered, share a small budget for each
provider. So nobody can use up the series of real models with invented names. The rest is counted under `other`.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from penstock.secrecy import redact_cut

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

OTHER = "other"
_REMEMBERED = 10_000  # names whose label is remembered
_LONG = 160  # characters of a label


class Budget(Enum):
    """Which budget of series a model counts against."""

    CONFIGURED = "configured"  # unlimited: their number is the operator's choice
    LISTED = "listed"
    OPEN = "open"


Label: TypeAlias = tuple[str, Budget]
_OTHER: Label = (OTHER, Budget.CONFIGURED)


class ModelLabels:
    """Looks up labels. `configured` and `listed` say whether a provider's model is in the configuration, in a list."""

    def __init__(self, secrets: Callable[[], Iterable[str]] = tuple) -> None:
        self.configured: Callable[[str, str], bool] = lambda _provider, _model: False
        self.listed: Callable[[str, str], bool] = lambda _provider, _model: False
        self._secrets = secrets
        self._labels: dict[tuple[str, str], Label] = {}

    def clear(self) -> None:
        """Forget the labels: the configuration has changed."""
        self._labels.clear()

    def label(self, provider: str, model: str, *, answered: bool) -> Label:
        """The label of a model, and its budget. `answered`: the model has just answered without a fault."""
        found = self._labels.get((provider, model))
        if found is None:
            found = self._choose(provider, model, answered=answered)
            if answered or (found[1] is Budget.CONFIGURED and found is not _OTHER):  # the rest may change
                if len(self._labels) >= _REMEMBERED:
                    self._labels.clear()
                self._labels[provider, model] = found
        return found

    def _choose(self, provider: str, model: str, *, answered: bool) -> Label:
        if not model:
            return "", Budget.CONFIGURED
        if self.configured(provider, model):
            budget = Budget.CONFIGURED
        else:
            listed = self.listed(provider, model)
            if not (listed or answered):
                return _OTHER
            budget = Budget.LISTED if listed and answered else Budget.OPEN
        return redact_cut(model, _LONG, self._secrets()), budget
