"""Tables as pandas data frames, where pandas is installed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from autoqec.errors import UnavailableError

if TYPE_CHECKING:
    import pandas


def frame(rows: Iterable[Mapping[str, Any]]) -> pandas.DataFrame:
    """One line per row, one column per key."""
    try:
        import pandas
    except ImportError as error:
        raise UnavailableError(
            "data frames need pandas", where="pandas", hint="pip install 'autoqec[frames]'"
        ) from error
    return pandas.DataFrame(list(rows))
