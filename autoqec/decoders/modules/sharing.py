"""Which learned number each link, fault or edge takes: the options of `weight_sharing`.

Numbers that several rows share stand once in a parameter, in its last dimension. Classes of `neighbourhood` have names, so that
what was learned about one can be found again where a code of another size has it, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from autoqec.decoders.dsl_schema import RADIUS, NeuralBpSpec
from autoqec.decoders.modules.neighbourhoods import U64, Colours, edge_colours, joined, levels, refined
from autoqec.decoders.modules.structure import TannerLinks
from autoqec.envs.problem import BOUNDARY, MatchingGraph
from autoqec.errors import InputError

MOST_CLASSES = 40_000
"""Names that a checkpoint has room for. Where there are more, next to nothing is shared."""

_ROWS = "_rows"


class Rows(nn.Module):
    """count: how many numbers there are. index: [rows] which of them each row takes; None where they are numbers of their own, or
    one for all. names: of the numbers, in their order.

    A module keeps the rows of its parameter `weight` as `weight_rows`.
    """

    index: Tensor | None

    def __init__(
        self, count: int, index: npt.NDArray[Any] | None = None, names: tuple[str, ...] | None = None
    ) -> None:
        super().__init__()
        self.count, self.names = count, names
        self.register_buffer("index", None if index is None else torch.from_numpy(index), persistent=False)

    def forward(self, numbers: Tensor) -> Tensor:
        """[..., count] -> [..., rows], or as it is where that broadcasts."""
        return numbers if self.index is None else numbers[..., self.index]


def link_rows(spec: NeuralBpSpec, links: TannerLinks) -> Rows:
    return _OF_LINKS[spec.weight_sharing](spec, links)


def fault_rows(spec: NeuralBpSpec, links: TannerLinks) -> Rows:
    """One number for every fault, or for every class of them."""
    if spec.weight_sharing != "neighbourhood":
        return Rows(links.n_faults)
    return _classes(_colours(spec, links).faults)


def edge_rows(spec: NeuralBpSpec, links: TannerLinks, graph: MatchingGraph) -> Rows:
    """One number for every edge of the matching graph, or for every class of them."""
    if spec.weight_sharing != "neighbourhood":
        return Rows(graph.n_edges)
    return _classes(edge_colours(_colours(spec, links), graph.ends, graph.fault_edges, BOUNDARY))


def class_names(module: nn.Module) -> dict[str, list[str]]:
    """The names of the classes that each parameter has numbers for, by the parameter's own name."""
    return {
        name.removesuffix(_ROWS): list(rows.names)
        for name, rows in module.named_modules(remove_duplicate=False)
        if isinstance(rows, Rows) and rows.names is not None
    }


def _by_neighbourhood(spec: NeuralBpSpec, links: TannerLinks) -> Rows:
    colours = _colours(spec, links)
    check, fault = _ends(links)
    return _classes(joined(colours.checks[check], colours.faults[fault]))


_OF_LINKS: dict[str, Callable[[NeuralBpSpec, TannerLinks], Rows]] = {
    "none": lambda _, links: Rows(links.n_links),
    "per_layer": lambda *_: Rows(1),
    "per_check": lambda _, links: Rows(links.n_checks, _ends(links)[0]),
    "neighbourhood": _by_neighbourhood,
}


def _ends(links: TannerLinks) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    return links.check.numpy(force=True), links.fault.numpy(force=True)


def _colours(spec: NeuralBpSpec, links: TannerLinks) -> Colours:
    sizes = links.n_checks, links.n_faults
    return refined(*_ends(links), sizes, levels(links.rates), spec.radius or RADIUS)


def _classes(colours: U64) -> Rows:
    found, index = np.unique(colours, return_inverse=True)
    if len(found) > MOST_CLASSES:
        raise InputError(
            f"{len(found)} neighbourhoods look different, so that next to nothing is shared",
            where="neural_bp.radius",
            hint="lower it, or use weight_sharing: none",
        )
    return Rows(len(found), index.astype(np.int64), tuple(f"{colour:016x}" for colour in found.tolist()))
