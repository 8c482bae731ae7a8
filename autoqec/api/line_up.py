"""Which decoders take part in a comparison: each once, under a name of its own, and all that can be wrong is said before a shot is drawn."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from autoqec.decoders.baselines.registry import DecoderChoice, choose, unavailable
from autoqec.decoders.protocol import DecoderFactory
from autoqec.decoders.reference_p import plain_backend
from autoqec.envs.environment import Environment
from autoqec.errors import InputError
from autoqec.finds.predecoder import Predecoder, load_predecoder
from autoqec.finds.zoo import is_zoo_name

Given = str | Path | DecoderFactory
"""A name of a baseline, the folder of a round, zoo:ENV/NAME, or a decoder itself."""


@dataclass(frozen=True)
class LineUp:
    """The decoders that are compared in an environment, and at which p.

    able: those that run, the plain backend first. missing: name -> why a decoder does not run. against: the one of them that ratios
    refer to besides the plain backend.
    """

    env: Environment
    sweep: tuple[float, ...]
    able: tuple[DecoderFactory, ...]
    missing: dict[str, str]
    against: str | None = None


@dataclass(frozen=True)
class _Entrant:
    """A decoder, the argument that asked for it, and the folder that it is called by, where a round was given by its path."""

    factory: DecoderFactory
    where: str
    folder: Path | None = None


def line_up(
    env: Environment,
    decoders: Iterable[Given] | None = None,
    *,
    p: float | Sequence[float] | None = None,
    against: Given | None = None,
) -> LineUp:
    """`compare` says what the arguments are. One of `decoders` may be missing here; `against` may not."""
    sweep = list(env.spec.noise.p) if p is None else [p] if isinstance(p, int | float) else list(p)
    env.check_sweep(sweep, where="p")
    wanted = env.spec.baseline_decoders if decoders is None else decoders
    entrants = [_Entrant(plain_backend(env), "decoders")]
    entrants += [found for each in wanted for found in _entrants(env, each, where="decoders")]
    if against is not None:
        entrants.append(_only(env, against))
    entrants = _named_apart(entrants)
    reasons = {
        each.factory.name: reason
        for each in entrants
        if isinstance(each.factory, DecoderChoice)
        and (reason := unavailable(each.factory, env.problem(sweep[0]))) is not None
    }
    other = None if against is None else entrants[-1].factory.name
    if other in reasons:
        raise InputError(
            f"{other} cannot run on {env.spec.name}: {reasons[other]}",
            where="against",
            hint="compare with a decoder that can",
        )
    chosen = {each.factory.name: each.factory for each in entrants}
    able = tuple(factory for name, factory in chosen.items() if name not in reasons)
    return LineUp(env, tuple(sweep), able, reasons, other)


def _only(env: Environment, against: Given) -> _Entrant:
    found = list(_entrants(env, against, where="against"))
    if len(found) > 1:
        names = ", ".join(each.factory.name for each in found)
        raise InputError(f"{against} is several decoders", where="against", hint=f"give one of {names}")
    return found[0]


def _entrants(env: Environment, given: Given, *, where: str) -> Iterator[_Entrant]:
    if isinstance(given, Path) or (isinstance(given, str) and is_round(given)):
        find = load_predecoder(given)
        yield _Entrant(_of(env, find), where, find.folder)
    elif isinstance(given, str):
        for choice in choose([given.strip()], env.spec.eval_protocol.osd_orders_reported, where=where):
            yield _Entrant(choice, where)
    elif all(hasattr(given, name) for name in ("name", "identity", "build")):
        yield _Entrant(_of(env, given), where)
    else:
        raise InputError(
            f"{repr(given)[:80]} is no decoder",
            where=where,
            hint="give the name of a baseline, the folder of a round, or what load_predecoder returns",
        )


def is_round(text: str) -> bool:
    """Whether a text stands for a round, and not for a baseline."""
    return os.sep in text or is_zoo_name(text)


def _of(env: Environment, factory: DecoderFactory) -> DecoderFactory:
    if isinstance(factory, Predecoder) and factory.env.content_hash != env.content_hash:
        raise InputError(
            f"{factory.name} was trained on {factory.env.spec.name}, or on another version of {env.spec.name}",
            where=factory.checkpoint,
            hint="compare it on its own environment",
        )
    return factory


def _named_apart(entrants: list[_Entrant]) -> list[_Entrant]:
    """A round whose name another decoder has, too, is called by the folders above it as well: a/round_3 and b/round_3."""
    deepest = max((len(each.folder.parts) for each in entrants if each.folder is not None), default=1)
    for depth in range(2, deepest + 2):
        taken = _taken_twice(entrants)
        if not taken:
            return entrants
        entrants = [_called(each, depth) if each.factory.name in taken else each for each in entrants]
    name, where = _taken_twice(entrants).popitem()
    raise InputError(
        f"two decoders are called {name}",
        where=where,
        hint="name one of them: load_predecoder(..., name=...)",
    )


def _taken_twice(entrants: list[_Entrant]) -> dict[str, str]:
    """Names that different decoders have -> the last argument that gave one of these."""
    first: dict[str, DecoderFactory] = {}
    return {
        each.factory.name: each.where
        for each in entrants
        if not _is_same(first.setdefault(each.factory.name, each.factory), each.factory)
    }


def _is_same(one: DecoderFactory, other: DecoderFactory) -> bool:
    both_found = isinstance(one, Predecoder) and isinstance(other, Predecoder)
    return one == other or (both_found and one.identity == other.identity)


def _called(entrant: _Entrant, depth: int) -> _Entrant:
    if entrant.folder is None or not isinstance(entrant.factory, Predecoder):
        return entrant
    name = str(Path(*entrant.folder.parts[-depth:]))
    return replace(entrant, factory=replace(entrant.factory, name=name, _built={}))
