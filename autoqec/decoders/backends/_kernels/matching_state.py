"""Memory of the matcher: what one thread needs to match one shot after another without allocating.

The algorithm is the sparse blossom of Higgott and Gidney (arXiv:2303.15933): every defect grows a region on
the detector graph itself, so only the neighbourhood of the defects is ever visited. Time is an integer and
the radius of a region at time t is `base + slope * t`. Edge weights are even integers, which keeps all event
times integral.

Kernels see the memory as raw pointers (`Memory`): numba counts the references of arrays in tuples on every
call, and that cost more than the matching itself. Tables are rows of 64-bit fields. A region, link or record
is named by the offset of its row, so `region[r + PARENT]` reads like a struct member. Detectors are 0..n-1
and `n` is the boundary.

Region 0 is a dummy of radius 0 that owns every unreached node and the boundary for ever. A link is a path
from a defect to another or to the boundary; `ref` is a link read from one of its ends, `ref ^ 1` from the
other.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from numba import njit, types
from numba.extending import intrinsic

I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]

NONE = -1
BOUNDARY_MATCH = -2
NO_TIME = 1 << 60
NEVER = 1 << 62
"""Weight of an edge that must not be used: later than NO_TIME even after halving."""

# own: all that a scan of neighbours reads. TOP: outermost region that holds the node. WRAP: plus the radius
# of that region, the distance by which the growth has passed the node.
OWN = 2
TOP, WRAP = 0, 1

# node. ARRIVAL: radius of the region when it got here. SOURCE: region of the defect whose growth got here.
# SHELL_PREV: node reached before by the same region. WANTED, QUEUED: time of the next look at the node, and
# of its entry in the queue.
NODE = 8
ARRIVAL, SOURCE, RECORD, SHELL_PREV, WANTED, QUEUED = range(6)

# region. SLOPE: +1 outer region of an alternating tree, -1 inner region, 0 matched and outside the trees.
# PARENT, CHILD, NEXT, NEXT_LINK: blossom above, first child, next child round the cycle, link to it.
# SHELL: last node reached by this very region. UP, UP_LINK: tree parent (outer) of an inner region.
# KIDS, SIBLING: inner regions below an outer one. FREE_NEXT: list of unused rows.
REGION = 16
BASE, SLOPE, PARENT, CHILD, NEXT, NEXT_LINK, SHELL, MATCH, MATCH_LINK = range(9)
UP, UP_LINK, KIDS, SIBLING, MARK, R_WANTED, R_QUEUED = range(9, 16)
FREE_NEXT = NEXT

# link. Fields 0 and 1: defect regions at both ends, so that `link[ref]` is where `ref` starts.
# FAR, FAR + 1: how far that side goes, an arrival record at one end of EDGE; if EDGE is COMPOSITE, a ref.
LINK = 8
FAR, EDGE, ODD = 2, 4, 5
COMPOSITE = -2

# record: one arrival at a node. Records outlive the arrival, so paths stay readable after a region shrank.
ARRIVED = 4
REC_NODE, REC_EDGE, REC_BACK, REC_ODD = range(4)

# counter
HEAP_SIZE, LINKS_END, RECORDS_END, NOW, N_TREES, REGIONS_END, FREE_REGION, STAMP = range(8)


class Graph(NamedTuple):
    """Adjacency of the detector graph, shared by all threads and shots.

    start: [n + 1] first slot of each detector. slots: [n_slots, 2] neighbour (n for the boundary) and edge.
    ends: [n_edges, 2] detectors of each edge, n for the boundary.
    id_bits: queue entries are `time << id_bits | id`, id a node or n + 1 + number of a region.
    weight_bits: the weights of a shot are scaled below 2 ** weight_bits.
    """

    start: I64
    slots: I32
    ends: I32
    id_bits: int
    weight_bits: int


class Arena(NamedTuple):
    """Scratch of one thread; between shots all nodes are unreached.

    weight: scaled weights of the shot. value: its weights as given; value_bits: the same memory as integers.
    """

    own: I64
    node: I64
    region: I64
    link: I64
    record: I64
    heap: I64
    stack: I64
    chosen: I64
    counter: I64
    weight: I64
    value: npt.NDArray[np.float64]
    value_bits: I64
    syndrome: npt.NDArray[np.uint8]


class Ints(Protocol):
    """A C pointer to integers, without bounds."""

    def __getitem__(self, i: int, /) -> int: ...
    def __setitem__(self, i: int, value: int, /) -> None: ...


class Memory(NamedTuple):
    """Graph and arena as the kernels see them. `*_limit`: fill at which the arena is too small to continue."""

    start: Ints
    slots: Ints
    own: Ints
    node: Ints
    region: Ints
    link: Ints
    record: Ints
    heap: Ints
    stack: Ints
    chosen: Ints
    counter: Ints
    weight: Ints
    n: int
    id_bits: int
    heap_limit: int
    link_limit: int
    record_limit: int


compiled = njit(nogil=True)


@intrinsic
def _pointer(_context: Any, array: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return context.make_array(signature.args[0])(context, builder, args[0]).data

    return types.CPointer(array.dtype)(array), codegen


@compiled
def as_memory(g: Graph, a: Arena) -> Memory:
    # One event may put every node and every region back into the queue.
    heap_limit = a.heap.size - a.own.size // OWN - a.region.size // REGION - 2
    return Memory(
        _pointer(g.start),
        _pointer(g.slots),
        _pointer(a.own),
        _pointer(a.node),
        _pointer(a.region),
        _pointer(a.link),
        _pointer(a.record),
        _pointer(a.heap),
        _pointer(a.stack),
        _pointer(a.chosen),
        _pointer(a.counter),
        _pointer(a.weight),
        g.start.size - 1,
        g.id_bits,
        heap_limit,
        a.link.size - LINK,
        a.record.size - ARRIVED,
    )


def n_regions(n: int) -> int:
    """The dummy, one region per defect, and a laminar family of blossoms over them."""
    return 2 * n + 2


def make_graph(n: int, ends: I32) -> Graph:
    """Adjacency with the boundary first among the neighbours; `ends` has -1 for the boundary."""
    ends = np.where(ends < 0, n, ends).astype(np.int32)
    tails = np.concatenate([ends[:, 0], ends[:, 1]])
    heads = np.concatenate([ends[:, 1], ends[:, 0]])
    edges = np.tile(np.arange(len(ends), dtype=np.int32), 2)
    inside = tails < n
    tails, heads, edges = tails[inside], heads[inside], edges[inside]
    order = np.lexsort((edges, heads != n, tails))
    start = np.zeros(n + 1, dtype=np.int64)
    start[1:] = np.cumsum(np.bincount(tails, minlength=n)[:n])
    slots = np.stack([heads[order], edges[order]], axis=1)
    id_bits = (n + 1 + n_regions(n)).bit_length()
    # A time is at most the longest shortest path, n edges; three bits of margin for intermediate sums.
    weight_bits = 62 - id_bits - (n + 1).bit_length() - 3
    return Graph(start, slots, ends, id_bits, weight_bits)


def make_arena(n: int, n_edges: int, growth: int = 1) -> Arena:
    """Scratch for `n` detectors; `growth` multiplies the parts whose need is not bounded beforehand."""
    m = n_regions(n)
    links, records = growth * 8 * n + 64, growth * 4 * n + 64
    value = np.zeros(n_edges, dtype=np.float64)
    return Arena(
        own=np.zeros(OWN * (n + 1), dtype=np.int64),
        node=np.full(NODE * (n + 1), NO_TIME, dtype=np.int64),
        region=np.zeros(REGION * m, dtype=np.int64),
        link=np.zeros(LINK * links, dtype=np.int64),
        record=np.zeros(ARRIVED * records, dtype=np.int64),
        heap=np.zeros(growth * 4 * (n + m) + 64, dtype=np.int64),
        stack=np.zeros(2 * m + 2, dtype=np.int64),
        chosen=np.zeros(links + records, dtype=np.int64),
        counter=np.zeros(8, dtype=np.int64),
        weight=np.zeros(n_edges, dtype=np.int64),
        value=value,
        value_bits=value.view(np.int64),
        syndrome=np.zeros((n + 8) // 8, dtype=np.uint8),
    )
