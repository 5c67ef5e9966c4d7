"""How much a test tries: what shows its behaviour, and far more in `make test-all`."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def few_or_many(name: str, few: int, many: int) -> pytest.MarkDecorator:
    """Run a test with a small number, and with a large one in `make test-all`."""
    return pytest.mark.parametrize(name, [few, pytest.param(many, marks=pytest.mark.exhaustive)])


def all_but_exhaustive(values: Iterable[Any], kept: Collection[Any]) -> list[Any]:
    """Mark the values that only `make test-all` tries: those that are not `kept`."""
    return [
        value if value in kept else pytest.param(value, marks=pytest.mark.exhaustive)
        for value in values
    ]
