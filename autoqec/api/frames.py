"""Tables as pandas data frames, where pandas is installed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from autoqec.io.optional import named_if_missing

if TYPE_CHECKING:
    import pandas


def frame(rows: Iterable[Mapping[str, Any]]) -> pandas.DataFrame:
    """One line per row, one column per key."""
    with named_if_missing():
        import pandas
    return pandas.DataFrame(list(rows))
