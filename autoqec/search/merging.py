"""Which pairs of branches can be merged into something that means what both say, and what comes out.

A branch holds its config as one option per line, and git merges changes of different options. Two branches compose when
neither contains the other, both kept the blocks of the config they parted from, each changed an option that the other did
not, and none was changed by both in different ways. The result has the changes of both. A pair is proposed once, in
whatever order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, get_args

from autoqec.decoders.dsl_schema import EdgeFeature, PredecoderDSL, canonical_dict
from autoqec.runner.schema import canonical_fork
from autoqec.search.earlier_rounds import Round
from autoqec.search.proposal import Branch, RoundContext

Options = dict[tuple[str, ...], Any]


@dataclass(frozen=True)
class Composition:
    """changed: what each parent changed since they parted."""

    dsl: PredecoderDSL
    parents: tuple[Round, Round]
    changed: tuple[str, str]


def compositions(rounds: Sequence[Round], context: RoundContext) -> Iterator[Composition]:
    """Pairs in the order of the rounds given."""
    branches = {branch.name: branch for branch in context.branches}
    done = {row.get("fork_from_canonical") for row in context.tried}
    usable = [one for one in rounds if one.row.get("branch") in branches and one.delta > 0]
    for first, second in combinations(usable, 2):
        names = [str(first.row["branch"]), str(second.row["branch"])]
        if canonical_fork(names) in done:
            continue
        base = _fork_point(names[0], names[1], branches)
        if base is None:
            continue
        origin, one, other = (_options(branches[name].config) for name in (base, *names))
        dsl = _merged(origin, one, other)
        if dsl is not None:
            yield Composition(dsl, (first, second), (_changes(origin, one), _changes(origin, other)))


def _fork_point(first: str, second: str, branches: Mapping[str, Branch]) -> str | None:
    """The nearest common ancestor; None if one contains the other, or a merge hides where they parted."""
    lines = [_line(first, branches), _line(second, branches)]
    if None in lines or first in (lines[1] or ()) or second in (lines[0] or ()):
        return None
    return next((name for name in lines[0] or () if name in (lines[1] or ())), None)


def _line(name: str, branches: Mapping[str, Branch]) -> list[str] | None:
    """A branch and its ancestors, nearest first; None if one is gone or has several parents."""
    line = [name]
    while branches[line[-1]].parents:
        parents = branches[line[-1]].parents
        if len(parents) > 1 or parents[0] not in branches or parents[0] in line:
            return None
        line.append(parents[0])
    return line


def _merged(origin: Options, one: Options, other: Options) -> PredecoderDSL | None:
    """The three-way merge; None where the two exclude each other or one has nothing of its own to give."""
    if one.keys() != origin.keys() or other.keys() != origin.keys():
        return None
    changed_one = {name for name in one if one[name] != origin[name]}
    changed_other = {name for name in other if other[name] != origin[name]}
    if not changed_one - changed_other or not changed_other - changed_one:
        return None
    if any(one[name] != other[name] for name in changed_one & changed_other):
        return None
    merged = {name: one[name] if name in changed_one else other[name] for name in origin}
    try:
        return _config(merged)
    except ValueError:  # two options that are valid each and not together
        return None


def _options(config: Mapping[str, Any]) -> Options:
    """Every option by its path; a feature set is one option per feature."""
    options: Options = {}
    for name, value in canonical_dict(PredecoderDSL.model_validate(dict(config))).items():
        if not isinstance(value, dict) or value.get("type") == "custom":
            options[name,] = value
            continue
        for option, inner in value.items():
            if option == "edge_features":
                options |= {(name, option, feature): feature in inner for feature in get_args(EdgeFeature)}
            else:
                options[name, option] = inner
    return options


def _config(options: Options) -> PredecoderDSL:
    data: dict[str, Any] = {}
    for path, value in options.items():
        match path:
            case (name,):
                data[name] = value
            case (name, option):
                data.setdefault(name, {})[option] = value
            case (name, option, feature):
                chosen = data.setdefault(name, {}).setdefault(option, [])
                chosen += [feature] if value else []
    return PredecoderDSL.model_validate(data)


def _changes(origin: Options, changed: Options) -> str:
    names = [".".join(path) for path in changed if changed[path] != origin[path]]
    return ", ".join(sorted(names))
