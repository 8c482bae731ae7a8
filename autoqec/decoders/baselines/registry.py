"""The baseline decoders that an environment may name, and how a name becomes a decoder.

An entry that is not installed here stays in the registry: asking for it says what to install.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from importlib import metadata

from autoqec import __version__
from autoqec.decoders.protocol import SHOTS_AT_ONCE, Confident, Decoder, decode_with_confidence
from autoqec.envs.packing import checked
from autoqec.envs.problem import U8, DecodingProblem
from autoqec.errors import InputError, UnavailableError
from autoqec.io.closest import did_you_mean

Build = Callable[[DecodingProblem, int], Decoder]


@dataclass(frozen=True)
class Baseline:
    """One entry: `build(problem, order)` makes the decoder; `order` is used where `has_order`.

    module, distribution: what has to be importable, and the name to install it by.
    needs_graph: runs on graph-like problems only. needs_context: only where an environment shows more detectors than the backend
    decodes. sees_context: it is given those, too, and the joint model. refuses: why it cannot take a
    problem, None if it can. fast: microseconds a shot, so it can go along on every shot. default_order: where a name comes without one; None for
    those that the environment asks for.
    """

    name: str
    summary: str
    build: Build
    module: str
    distribution: str
    needs_graph: bool = False
    needs_context: bool = False
    sees_context: bool = False
    refuses: Callable[[DecodingProblem], str | None] | None = None
    fast: bool = False
    has_order: bool = False
    default_order: int | None = None
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
        distribution = entry(self.entry).distribution
        version = __version__ if distribution == "autoqec" else metadata.version(distribution)
        return f"{self.name}/{distribution}-{version}"

    @property
    def shots_at_once(self) -> int:
        return SHOTS_AT_ONCE if entry(self.entry).fast else SHOTS_AT_ONCE // 8

    def build(self, problem: DecodingProblem) -> Decoder:
        """The decoder for one problem, or UnavailableError with the install hint."""
        reason = unavailable(self, problem)
        if reason is not None:
            raise UnavailableError(
                f"decoder {self.name!r} cannot run on {problem.name or 'this error model'}: {reason}",
                where="decoders",
                hint="leave it out, or install what it needs",
            )
        baseline = entry(self.entry)
        if problem.joint is None or baseline.sees_context:
            return baseline.build(problem, self.order or 0)
        decoder = baseline.build(replace(problem, joint=None), self.order or 0)
        return _WithoutContext(decoder, problem, self.name)


class _WithoutContext:
    """A decoder that is given the shots as the backend sees them."""

    def __init__(self, decoder: Decoder, problem: DecodingProblem, name: str) -> None:
        self._decoder, self._problem, self._name = decoder, problem, name

    def decode(self, detectors: U8) -> U8:
        return self._decoder.decode(self._seen(detectors))

    def decode_with_confidence(self, detectors: U8) -> Confident:
        return decode_with_confidence(self._decoder, self._seen(detectors), name=self._name)

    def _seen(self, detectors: U8) -> U8:
        return self._problem.backend_shots(checked(detectors, self._problem.n_checks, what="detectors"))


_MODULES = {
    "pymatching": "plain",
    "pymatching_correlated": "correlated",
    "belief_matching": "belief_matching",
    "bposd": "bp_osd",
    "bplsd": "bp_lsd",
    "relay_bp": "relay",
    "tesseract": "tesseract",
    "turbo": "turbo",
    "joint_bposd": "joint_bp_osd",
    "joint_relay": "joint_relay",
    "joint_legs": "joint_legs",
    "maximum_likelihood": "maximum_likelihood",
    "sweep": "sweep",
}


_MOST_DIGITS = 6
"""Of an order."""


def names() -> list[str]:
    """Every entry, installed or not."""
    return list(_MODULES)


def entry(name: str) -> Baseline:
    """One entry; its module, and the libraries that it needs, are imported only now."""
    module = importlib.import_module(f"autoqec.decoders.baselines.{_MODULES[name]}")
    found: Baseline = module.ENTRY
    return found


def is_known(text: str) -> bool:
    """Whether a text is the name of an entry, with an order or without."""
    name, dash, order = text.partition("-")
    if name not in _MODULES or not dash:
        return name in _MODULES
    is_number = order.isascii() and order.isdecimal() and len(order) <= _MOST_DIGITS
    return is_number and entry(name).has_order


def choose(wanted: Iterable[str], orders: Iterable[int], *, where: str) -> list[DecoderChoice]:
    """Decoders by name, in order, each once. A name with an open order stands for its default, or for every one of `orders`."""
    chosen: dict[DecoderChoice, None] = {}
    for text in wanted:
        if not is_known(text):
            raise InputError(
                f"unknown decoder {text[:80]!r}",
                where=where,
                hint=" ".join(
                    filter(
                        None,
                        [
                            did_you_mean(text, _MODULES),
                            f"known: {', '.join(_MODULES)}; an order is written as in bposd-10",
                        ],
                    )
                ),
            )
        name, _, order = text.partition("-")
        baseline = entry(name)
        if not baseline.has_order:
            chosen[DecoderChoice(name)] = None
            continue
        usual = orders if baseline.default_order is None else (baseline.default_order,)
        for value in [int(order)] if order else usual:
            chosen[DecoderChoice(name, value)] = None
    return list(chosen)


def unavailable(choice: DecoderChoice, problem: DecodingProblem | None = None) -> str | None:
    """Why a decoder cannot run here or on this problem; None when it can."""
    baseline = entry(choice.entry)
    if not baseline.is_available:
        return f"not installed: {baseline.hint}"
    if problem is not None and baseline.needs_graph and problem.graph is None:
        return "needs a graph-like problem"
    if problem is not None and baseline.needs_context and problem.joint is None:
        return "needs an environment with eval_protocol.osd_bases: observable_with_context"
    return None if problem is None or baseline.refuses is None else baseline.refuses(problem)
