"""The baseline decoders that an environment may name, and how a name becomes a decoder.

An entry that is not installed here stays in the registry: asking for it says what to install.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import metadata

from autoqec import __version__
from autoqec.decoders.protocol import Decoder
from autoqec.envs.problem import DecodingProblem
from autoqec.errors import InputError, UnavailableError

Build = Callable[[DecodingProblem, int], Decoder]


@dataclass(frozen=True)
class Baseline:
    """One entry: `build(problem, order)` makes the decoder; `order` is used where `has_order`.

    module, distribution: what has to be importable, and the name to install it by.
    needs_graph: runs on graph-like problems only.
    """

    name: str
    summary: str
    build: Build
    module: str
    distribution: str
    needs_graph: bool = False
    has_order: bool = False
    note: str = ""

    @property
    def is_available(self) -> bool:
        return importlib.util.find_spec(self.module) is not None

    @property
    def hint(self) -> str:
        return f"pip install {self.distribution}" + (f" ({self.note})" if self.note else "")


@dataclass(frozen=True)
class DecoderChoice:
    """A registry entry with its order: what users write as `bposd-10`. Small, picklable, and an identity."""

    entry: str
    order: int | None = None

    @property
    def name(self) -> str:
        return self.entry if self.order is None else f"{self.entry}-{self.order}"

    @property
    def identity(self) -> str:
        """Name, order and library version: equal identities decode equally."""
        distribution = registry()[self.entry].distribution
        version = __version__ if distribution == "autoqec" else metadata.version(distribution)
        return f"{self.name}/{distribution}-{version}"

    def build(self, problem: DecodingProblem) -> Decoder:
        """The decoder for one problem, or UnavailableError with the install hint."""
        reason = unavailable(self, problem)
        if reason is not None:
            raise UnavailableError(
                f"decoder {self.name!r} cannot run on {problem.name}: {reason}",
                where="decoders",
                mend="leave it out, or install what it needs",
            )
        return registry()[self.entry].build(problem, self.order or 0)


def registry() -> dict[str, Baseline]:
    """All entries by name."""
    from autoqec.decoders.baselines import (
        belief_matching,
        bp_lsd,
        bp_osd,
        correlated,
        plain,
        relay,
        tesseract,
    )

    entries = (plain, correlated, belief_matching, bp_osd, bp_lsd, relay, tesseract)
    return {module.ENTRY.name: module.ENTRY for module in entries}


def choose(names: Iterable[str], orders: Iterable[int], *, where: str) -> list[DecoderChoice]:
    """Decoders by name, in order, each once. A name with an open order stands for every one of `orders`."""
    known = registry()
    chosen: dict[DecoderChoice, None] = {}
    for text in names:
        entry, _, order = text.partition("-")
        if entry not in known or (order and not (order.isdigit() and known[entry].has_order)):
            raise InputError(
                f"unknown decoder {text!r}",
                where=where,
                mend=f"known: {', '.join(known)}; an order is written as in bposd-10",
            )
        if not known[entry].has_order:
            chosen[DecoderChoice(entry)] = None
        else:
            for value in [int(order)] if order else orders:
                chosen[DecoderChoice(entry, value)] = None
    return list(chosen)


def unavailable(choice: DecoderChoice, problem: DecodingProblem | None = None) -> str | None:
    """Why a decoder cannot run here or on this problem; None when it can."""
    entry = registry()[choice.entry]
    if not entry.is_available:
        return f"not installed: {entry.hint}"
    if problem is not None and entry.needs_graph and problem.graph is None:
        return "needs a graph-like problem"
    return None
