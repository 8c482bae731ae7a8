"""What tokens cost. Money is counted in whole billionths of a dollar, so that sums are exact."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from decimal import ROUND_CEILING, Decimal
from fnmatch import fnmatchcase
from importlib import resources
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from autoqec.errors import InputError
from autoqec.io.validate import load_model

NANO = 1_000_000_000
_MILLION = 1_000_000
_OVERHEAD_TOKENS = 2_000
"""What vendors add to a request: the schema in their own words, the marks of a chat."""


def nano_of(usd: Decimal | float | str) -> int:
    """Rounded up: a cost is never understated."""
    return int((Decimal(str(usd)) * NANO).to_integral_value(ROUND_CEILING))


def usd_of(nano: int) -> Decimal:
    return Decimal(nano) / NANO


@dataclass(frozen=True)
class Usage:
    """Tokens of one call. input: neither read from a cache nor written to one. output: reasoning included."""

    input: int = 0
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input + other.input,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
            self.output + other.output,
        )


class Price(BaseModel):
    """USD per million tokens. A cache price that is not given is that of plain input."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    input: float = Field(ge=0.0)
    output: float = Field(ge=0.0)
    cache_read: float | None = Field(default=None, ge=0.0)
    cache_write: float | None = Field(default=None, ge=0.0)

    def cost(self, usage: Usage) -> int:
        read = self.input if self.cache_read is None else self.cache_read
        write = self.input if self.cache_write is None else self.cache_write
        parts = (
            (usage.input, self.input),
            (usage.cache_read, read),
            (usage.cache_write, write),
            (usage.output, self.output),
        )
        return nano_of(sum((count * Decimal(str(price)) for count, price in parts), Decimal(0)) / _MILLION)

    def most(self, text_bytes: int, output_tokens: int) -> int:
        """More than a request can cost: a token is a byte or more, and all of it may be written to a cache."""
        dearest = max(self.input, self.cache_write or 0.0)
        whole = Price(input=dearest, output=self.output)
        return whole.cost(Usage(input=text_bytes + _OVERHEAD_TOKENS, output=output_tokens))


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid")

    as_of: date
    sources: list[str] = []
    models: dict[str, Price]


class Prices:
    """The price table, with the user's own (AUTOQEC_PRICES) before it."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        shipped = load_model(Path(str(resources.files("autoqec.agents"))) / "prices.yaml", _Table)
        own = load_model(path, _Table) if (path := environ.get("AUTOQEC_PRICES")) else None
        self.as_of = (own or shipped).as_of
        self._tables = [table.models for table in (own, shipped) if table is not None]

    def find(self, model: str | None) -> Price | None:
        for table in self._tables:
            fits = [pattern for pattern in table if model is not None and fnmatchcase(model, pattern)]
            if fits:
                return table[max(fits, key=len)]
        return None

    def need(self, model: str | None) -> Price:
        """For a cap."""
        return self._found(model, f"the price of model {model!r} is not known, so no cap in USD can be kept")

    def know(self, model: str | None) -> Price:
        """For a program that has no list of its models to ask for."""
        return self._found(model, f"there is no model {model!r}, as far as the price list goes")

    def _found(self, model: str | None, otherwise: str) -> Price:
        price = self.find(model)
        if price is None:
            raise InputError(
                otherwise,
                where="prices",
                hint="name a model of autoqec/agents/prices.yaml, or give its price in a file of that layout by AUTOQEC_PRICES",
            )
        return price
