"""The event loop of one shot: defects grow until every one of them is matched."""

from __future__ import annotations

from autoqec.decoders.backends._kernels.matching_blossom import (
    break_blossom,
    hit_boundary,
    hit_region,
    implode,
)
from autoqec.decoders.backends._kernels.matching_flood import (
    arrive,
    leave,
    next_event,
    place_defect,
    pop,
    push,
    schedule,
    schedule_next,
    schedule_shrink,
)
from autoqec.decoders.backends._kernels.matching_state import (
    ARRIVED,
    CHILD,
    FREE_REGION,
    HEAP_SIZE,
    LINKS_END,
    N_TREES,
    NO_TIME,
    NODE,
    NONE,
    NOW,
    OWN,
    QUEUED,
    R_QUEUED,
    R_WANTED,
    REC_NODE,
    RECORDS_END,
    REGION,
    REGIONS_END,
    SHELL,
    SHELL_PREV,
    SLOPE,
    TOP,
    WANTED,
    WRAP,
    Ints,
    Memory,
    compiled,
)
from autoqec.decoders.backends._kernels.matching_tree import link_nodes, new_region

SOLVED, UNMATCHABLE, ARENA_FULL = 0, 1, 2


@compiled
def start(m: Memory) -> None:
    counter = m.counter
    counter[HEAP_SIZE] = 0
    counter[LINKS_END] = 0
    counter[RECORDS_END] = 0
    counter[NOW] = 0
    counter[N_TREES] = 0
    counter[REGIONS_END] = REGION
    counter[FREE_REGION] = NONE


@compiled
def add_defect(m: Memory, u: int) -> None:
    place_defect(m, new_region(m), u)
    m.counter[N_TREES] += 1


@compiled
def clear(m: Memory) -> None:
    """Make all nodes unreached again."""
    for rec in range(0, m.counter[RECORDS_END], ARRIVED):
        u = m.record[rec + REC_NODE]
        m.own[OWN * u + TOP] = 0
        m.own[OWN * u + WRAP] = 0
        m.node[NODE * u + WANTED] = NO_TIME
        m.node[NODE * u + QUEUED] = NO_TIME


@compiled
def look_at_node(m: Memory, u: int) -> bool:
    """Handle all that happens at node u now, then queue its next event. False: the arena is full."""
    counter = m.counter
    while counter[N_TREES] > 0:
        if (
            counter[RECORDS_END] > m.record_limit
            or counter[LINKS_END] > m.link_limit
            or counter[HEAP_SIZE] > m.heap_limit
        ):
            return False
        time, slot = next_event(m, u)
        if slot < 0:
            m.node[NODE * u + WANTED] = NO_TIME
            return True
        if time > counter[NOW]:
            schedule(m, u, time)
            return True
        v = m.slots[2 * slot]
        edge = m.slots[2 * slot + 1]
        mine = m.own[OWN * u + TOP]
        theirs = m.own[OWN * v + TOP]
        if v == m.n:
            hit_boundary(m, mine, link_nodes(m, u, v, edge))
        elif theirs == 0:
            arrive(m, u, v, edge)
            schedule_next(m, v)
        elif mine == 0:
            arrive(m, v, u, edge)
        elif m.region[mine + SLOPE] > 0:
            hit_region(m, mine, theirs, link_nodes(m, u, v, edge))
        else:
            hit_region(m, theirs, mine, link_nodes(m, v, u, edge))
    return True


@compiled
def look_at_region(m: Memory, r: int) -> bool:
    """A shrinking region gives up a node, or has none left to give. False: the arena is full."""
    if m.counter[LINKS_END] > m.link_limit or m.counter[HEAP_SIZE] > m.heap_limit:
        return False
    last = m.region[r + SHELL]
    if last < 0:
        break_blossom(m, r)
    elif m.region[r + CHILD] < 0 and m.node[NODE * last + SHELL_PREV] < 0:
        implode(m, r)
    else:
        schedule_next(m, leave(m, r))
        schedule_shrink(m, r)
    return True


@compiled
def is_due(m: Memory, table: Ints, queued: int, wanted: int, key: int) -> bool:
    """Whether the entry `key` taken from the queue is current; one that came too early is put back."""
    time = key >> m.id_bits
    if table[queued] != time:
        return False
    table[queued] = NO_TIME
    later = table[wanted]
    if later <= time:
        m.counter[NOW] = time
        return True
    if later < NO_TIME:
        table[queued] = later
        push(m, key + ((later - time) << m.id_bits))
    return False


@compiled
def grow(m: Memory) -> int:
    """Match the defects added since `start`."""
    counter = m.counter
    for r in range(REGION, counter[REGIONS_END], REGION):
        schedule_next(m, m.region[r + SHELL])
    id_mask = (1 << m.id_bits) - 1
    while counter[N_TREES] > 0:
        if counter[HEAP_SIZE] == 0:
            return UNMATCHABLE
        key = pop(m)
        u = key & id_mask
        if u <= m.n:
            if is_due(m, m.node, NODE * u + QUEUED, NODE * u + WANTED, key) and not look_at_node(m, u):
                return ARENA_FULL
        else:
            r = REGION * (u - m.n - 1)
            if is_due(m, m.region, r + R_QUEUED, r + R_WANTED, key) and not look_at_region(m, r):
                return ARENA_FULL
    return SOLVED
