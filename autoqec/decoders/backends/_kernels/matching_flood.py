"""Growth of regions on the detector graph: arrivals, coming collisions, and the queue of times to look.

A node is put in the queue with the earliest time at which something could happen there. The time may be too
early, after a neighbour stopped growing, never too late; the look then finds nothing and puts the node back.
"""

from __future__ import annotations

from autoqec.decoders.backends._kernels.matching_state import (
    ARRIVAL,
    ARRIVED,
    BASE,
    CHILD,
    HEAP_SIZE,
    NEXT,
    NO_TIME,
    NODE,
    NONE,
    NOW,
    OWN,
    PARENT,
    QUEUED,
    R_QUEUED,
    R_WANTED,
    REC_BACK,
    REC_EDGE,
    REC_NODE,
    REC_ODD,
    RECORD,
    RECORDS_END,
    REGION,
    SHELL,
    SHELL_PREV,
    SLOPE,
    SOURCE,
    TOP,
    WANTED,
    WRAP,
    Memory,
    compiled,
)


@compiled
def push(m: Memory, key: int) -> None:
    heap = m.heap
    i = m.counter[HEAP_SIZE]
    m.counter[HEAP_SIZE] = i + 1
    while i > 0:
        up = (i - 1) >> 1
        if heap[up] <= key:
            break
        heap[i] = heap[up]
        i = up
    heap[i] = key


@compiled
def pop(m: Memory) -> int:
    heap = m.heap
    size = m.counter[HEAP_SIZE] - 1
    m.counter[HEAP_SIZE] = size
    first = heap[0]
    key = heap[size]
    i = 0
    child = 1
    while child < size:
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= key:
            break
        heap[i] = heap[child]
        i = child
        child = 2 * i + 1
    heap[i] = key
    return first


@compiled
def next_event(m: Memory, u: int) -> tuple[int, int]:
    """Earliest (time, slot) at which node u meets a neighbour; slot -1 if it never does as things stand."""
    own, region, slots, weight = m.own, m.region, m.slots, m.weight
    mine = own[OWN * u + TOP]
    slope = region[mine + SLOPE]
    base = region[mine + BASE] + own[OWN * u + WRAP]
    best = NO_TIME
    best_slot = NONE
    # Impossible meetings get a late time instead of a `continue`: a branch would be hard to predict.
    if slope > 0:
        for k in range(m.start[u], m.start[u + 1]):
            v = slots[2 * k]
            other = own[OWN * v + TOP]
            other_slope = region[other + SLOPE]
            gap = weight[slots[2 * k + 1]] - base - region[other + BASE] - own[OWN * v + WRAP]
            # Two growing regions close the gap at twice the speed.
            time = gap >> (other_slope & 1)
            if (other == mine) | (other_slope < 0):
                time = NO_TIME
            if time < best:
                best = time
                best_slot = k
    elif slope == 0:
        for k in range(m.start[u], m.start[u + 1]):
            v = slots[2 * k]
            other = own[OWN * v + TOP]
            time = weight[slots[2 * k + 1]] - base - region[other + BASE] - own[OWN * v + WRAP]
            if region[other + SLOPE] <= 0:
                time = NO_TIME
            if time < best:
                best = time
                best_slot = k
    return best, best_slot


@compiled
def schedule(m: Memory, u: int, time: int) -> None:
    m.node[NODE * u + WANTED] = time
    if time < m.node[NODE * u + QUEUED]:
        m.node[NODE * u + QUEUED] = time
        push(m, (time << m.id_bits) | u)


@compiled
def schedule_next(m: Memory, u: int) -> None:
    time, slot = next_event(m, u)
    if slot >= 0:
        schedule(m, u, time)
    else:
        m.node[NODE * u + WANTED] = NO_TIME


@compiled
def schedule_shrink(m: Memory, r: int) -> None:
    """An inner region next changes when its last node is left, or when its radius is used up."""
    last = m.region[r + SHELL]
    time = m.region[r + BASE]
    if last >= 0:
        time -= m.node[NODE * last + ARRIVAL]
    m.region[r + R_WANTED] = time
    if time < m.region[r + R_QUEUED]:
        m.region[r + R_QUEUED] = time
        push(m, (time << m.id_bits) | (m.n + 1 + r // REGION))


@compiled
def occupy(m: Memory, r: int, u: int) -> int:
    """The growing region r takes the empty node u; returns the record of the arrival, to be filled in."""
    rec = m.counter[RECORDS_END]
    m.counter[RECORDS_END] = rec + ARRIVED
    radius = m.region[r + BASE] + m.counter[NOW]
    m.record[rec + REC_NODE] = u
    m.record[rec + REC_ODD] = 0
    m.node[NODE * u + ARRIVAL] = radius
    m.node[NODE * u + RECORD] = rec
    m.node[NODE * u + SHELL_PREV] = m.region[r + SHELL]
    m.region[r + SHELL] = u
    m.own[OWN * u + TOP] = r
    m.own[OWN * u + WRAP] = -radius
    return rec


@compiled
def place_defect(m: Memory, r: int, u: int) -> None:
    """The new region r starts at its defect u."""
    rec = occupy(m, r, u)
    m.record[rec + REC_BACK] = NONE
    m.node[NODE * u + SOURCE] = r


@compiled
def arrive(m: Memory, u: int, v: int, edge: int) -> None:
    """The region that grows at u takes the empty neighbour v."""
    rec = occupy(m, m.own[OWN * u + TOP], v)
    m.record[rec + REC_EDGE] = edge
    m.record[rec + REC_BACK] = m.node[NODE * u + RECORD]
    m.node[NODE * v + SOURCE] = m.node[NODE * u + SOURCE]


@compiled
def leave(m: Memory, r: int) -> int:
    """The shrinking region r leaves the node it reached last; returns the node."""
    u = m.region[r + SHELL]
    m.region[r + SHELL] = m.node[NODE * u + SHELL_PREV]
    m.own[OWN * u + TOP] = 0
    m.own[OWN * u + WRAP] = 0
    return u


@compiled
def following(m: Memory, r: int, root: int) -> int:
    """Next region of the walk through `root` and all blossom children below it; NONE after the last."""
    region = m.region
    if region[r + CHILD] >= 0:
        return region[r + CHILD]
    while r != root:
        parent = region[r + PARENT]
        sibling = region[r + NEXT]
        if sibling != region[parent + CHILD]:
            return sibling
        r = parent
    return NONE


@compiled
def schedule_area(m: Memory, root: int) -> None:
    """Look anew at all nodes of a region that began to grow or ceased to shrink."""
    r = root
    while r >= 0:
        u = m.region[r + SHELL]
        while u >= 0:
            schedule_next(m, u)
            u = m.node[NODE * u + SHELL_PREV]
        r = following(m, r, root)


@compiled
def hand_area(m: Memory, root: int, top: int, shift: int) -> None:
    """Give all nodes of `root` to the top region `top`, keeping the distance grown past each."""
    r = root
    while r >= 0:
        u = m.region[r + SHELL]
        while u >= 0:
            m.own[OWN * u + TOP] = top
            m.own[OWN * u + WRAP] += shift
            u = m.node[NODE * u + SHELL_PREV]
        r = following(m, r, root)


@compiled
def set_slope(m: Memory, r: int, slope: int) -> None:
    """Change the speed of r from now on; the radius is continuous."""
    now = m.counter[NOW]
    m.region[r + BASE] += (m.region[r + SLOPE] - slope) * now
    m.region[r + SLOPE] = slope
    m.region[r + R_WANTED] = NO_TIME
