"""Checks, faults and links that look alike within some hops of the Tanner graph: colour refinement (Weisfeiler and Leman 1968).

A fault begins with a colour by how likely it is, all checks with the same one. In each step every node takes a new colour from its
own and from those of its neighbours, counted. After `radius` steps two nodes with the same colour have the same surroundings
within that many hops, as far as a message-passing decoder could tell.

Colours are 64-bit hashes of what was seen and of nothing else: neither of numbering nor of size. So the same surroundings have the
same colour in any code, and a checkpoint can name what it learned something about.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]

_UNIT = 15.0
"""Depolarising channels make faults of multiples of p / 15 (of two qubits) and p / 3: rates are whole numbers in this unit."""
_COARSE = 1.1
_MOST = 1e6
_CHECK, _FAULT, _BOUNDARY, _OTHER = (np.uint64(n) for n in (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344))
"""Apart from each other, and no more than that."""


class Colours(NamedTuple):
    checks: U64
    faults: U64


def levels(rates: npt.ArrayLike) -> I64:
    """Quantised rates. Whole multiples of p / 15 up to nine are levels of their own, above that a level is a tenth wide, below one
    half a factor of two. Edges are half-integers, as far from multiples as can be: rates of merged faults differ from
    multiples by a relative p or so, and environments of one family by no more."""
    n = np.clip(np.asarray(rates, dtype=np.float64) * _UNIT, 1e-12, _MOST)
    above = np.searchsorted(_EDGES, n)
    below = np.floor(np.log2(n / _EDGES[0])).astype(np.int64)
    return np.where(above > 0, above, below).astype(np.int64)


def _edges() -> npt.NDArray[np.float64]:
    found = [0.5]
    while found[-1] < _MOST:
        found.append(max(found[-1] + 1.0, np.floor(found[-1] * _COARSE) + 0.5))
    return np.array(found)


_EDGES = _edges()


def refined(check: I64, fault: I64, sizes: tuple[int, int], first: I64, radius: int) -> Colours:
    """The colours of checks and faults.

    Args:
        check, fault: [n_links] ends of each link.
        sizes: how many checks and faults there are.
        first: [n_faults] levels.
    """
    to_check, to_fault = _Sums(check, sizes[0]), _Sums(fault, sizes[1])
    colours = Colours(_mixed(np.full(sizes[0], _CHECK)), _mixed(first.astype(np.uint64) ^ _FAULT))
    for _ in range(radius):
        colours = Colours(
            joined(colours.checks, to_check(_mixed(colours.faults)[fault])),
            joined(colours.faults, to_fault(_mixed(colours.checks)[check])),
        )
    return colours


def edge_colours(colours: Colours, ends: npt.NDArray[Any], fault_edges: Any, boundary: int) -> U64:
    """[n_edges] of a matching graph, by its two ends and the faults that flip it. fault_edges: [n_edges, n_faults] CSR."""
    degree = np.diff(fault_edges.indptr)
    faults = _Sums(np.repeat(np.arange(len(ends)), degree), len(ends))
    checks = _mixed(np.append(colours.checks, _BOUNDARY))
    ends = np.where(ends == boundary, len(colours.checks), ends)
    return joined(
        checks[ends[:, 0]] + checks[ends[:, 1]], faults(_mixed(colours.faults)[fault_edges.indices])
    )


def joined(first: U64, second: U64) -> U64:
    """One colour from two, in this order."""
    return _mixed(first + _mixed(second ^ _OTHER))


class _Sums:
    """Sums over groups, modulo 2^64: of mixed colours, a hash of how often each of them is there."""

    def __init__(self, group: npt.NDArray[Any], n_groups: int) -> None:
        self._order = np.argsort(group, kind="stable")
        self._starts = np.concatenate([[0], np.cumsum(np.bincount(group, minlength=n_groups))])

    def __call__(self, values: U64) -> U64:
        total = np.concatenate(
            [np.zeros(1, dtype=np.uint64), np.cumsum(values[self._order], dtype=np.uint64)]
        )
        return np.asarray(total[self._starts[1:]] - total[self._starts[:-1]])


def _mixed(values: U64) -> U64:
    """A bijection of 64 bits without pattern (the finaliser of splitmix64, Steele et al. 2014)."""
    z = values + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> np.uint64(31)))
