"""One shot: run the event queue until every defect is matched, then read the correction off the links."""

from __future__ import annotations

from numba import njit

from autoqec.decoders.backends._kernels.matching_blossom import (
    break_blossom,
    child_with,
    hit_boundary,
    hit_region,
    implode,
    link_boundary,
    link_nodes,
    new_region,
)
from autoqec.decoders.backends._kernels.matching_flood import (
    arrive,
    leave,
    next_event,
    occupy,
    pop,
    push,
    schedule,
    schedule_next,
    schedule_shrink,
)
from autoqec.decoders.backends._kernels.matching_state import (
    ARRIVED,
    CHILD,
    COMPOSITE,
    EDGE,
    FAR,
    FREE_REGION,
    HEAP_SIZE,
    LINK,
    LINKS_END,
    MARK,
    MATCH,
    MATCH_LINK,
    N_TREES,
    NEXT,
    NEXT_LINK,
    NO_TIME,
    NODE,
    NONE,
    NOW,
    ODD,
    OWN,
    PARENT,
    QUEUED,
    R_QUEUED,
    R_WANTED,
    REC_BACK,
    REC_EDGE,
    REC_NODE,
    REC_ODD,
    RECORDS_END,
    REGION,
    REGIONS_END,
    SHELL,
    SHELL_PREV,
    SLOPE,
    STAMP,
    TOP,
    WANTED,
    WRAP,
)

SOLVED, UNMATCHABLE, ARENA_FULL = 0, 1, 2


@njit(nogil=True)
def start(m):
    counter = m.counter
    counter[HEAP_SIZE] = 0
    counter[LINKS_END] = 0
    counter[RECORDS_END] = 0
    counter[NOW] = 0
    counter[N_TREES] = 0
    counter[REGIONS_END] = REGION
    counter[FREE_REGION] = NONE


@njit(nogil=True)
def add_defect(m, u):
    r = new_region(m)
    occupy(m, u, r, 0, r, NONE, NONE)
    m.counter[N_TREES] += 1


@njit(nogil=True)
def clear(m):
    """Make all nodes unreached again."""
    for rec in range(0, m.counter[RECORDS_END], ARRIVED):
        u = m.record[rec + REC_NODE]
        m.own[OWN * u + TOP] = 0
        m.own[OWN * u + WRAP] = 0
        m.node[NODE * u + WANTED] = NO_TIME
        m.node[NODE * u + QUEUED] = NO_TIME


@njit(nogil=True)
def look_at_node(m, u):
    """Handle all that happens at node u now, then queue its next event. False: the arena is full."""
    now = m.counter[NOW]
    while m.counter[N_TREES] > 0:
        if (
            m.counter[RECORDS_END] > m.record_limit
            or m.counter[LINKS_END] > m.link_limit
            or m.counter[HEAP_SIZE] > m.heap_limit
        ):
            return False
        time, slot = next_event(m, u)
        if slot < 0:
            m.node[NODE * u + WANTED] = NO_TIME
            return True
        if time > now:
            schedule(m, u, time)
            return True
        v = m.slots[2 * slot]
        edge = m.slots[2 * slot + 1]
        mine = m.own[OWN * u + TOP]
        theirs = m.own[OWN * v + TOP]
        if v == m.n:
            hit_boundary(m, mine, link_boundary(m, u, edge))
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


@njit(nogil=True)
def look_at_region(m, r):
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


@njit(nogil=True)
def grow(m):
    """Match the defects added since `start`."""
    node, region, counter = m.node, m.region, m.counter
    for r in range(REGION, counter[REGIONS_END], REGION):
        schedule_next(m, region[r + SHELL])
    n_nodes = m.n + 1
    id_mask = (1 << m.id_bits) - 1
    while counter[N_TREES] > 0:
        if counter[HEAP_SIZE] == 0:
            return UNMATCHABLE
        key = pop(m)
        time = key >> m.id_bits
        i = key & id_mask
        if i < n_nodes:
            if node[NODE * i + QUEUED] != time:
                continue
            node[NODE * i + QUEUED] = NO_TIME
            wanted = node[NODE * i + WANTED]
            if wanted > time:
                if wanted < NO_TIME:
                    node[NODE * i + QUEUED] = wanted
                    push(m, (wanted << m.id_bits) | i)
                continue
            counter[NOW] = time
            if not look_at_node(m, i):
                return ARENA_FULL
        else:
            r = REGION * (i - n_nodes)
            if region[r + R_QUEUED] != time:
                continue
            region[r + R_QUEUED] = NO_TIME
            wanted = region[r + R_WANTED]
            if wanted > time:
                if wanted < NO_TIME:
                    region[r + R_QUEUED] = wanted
                    push(m, (wanted << m.id_bits) | i)
                continue
            counter[NOW] = time
            if not look_at_region(m, r):
                return ARENA_FULL
    return SOLVED


@njit(nogil=True)
def mark_link(m, ref):
    m.link[(ref | 1) - 1 + ODD] ^= 1


@njit(nogil=True)
def mark_links(m, n_defects):
    """Set LINK_ODD on the links of the final matching, going down into every blossom."""
    region, stack = m.region, m.stack
    m.counter[STAMP] += 1
    stamp = m.counter[STAMP]
    for defect in range(REGION, REGION * (n_defects + 1), REGION):
        top = defect
        while region[top + PARENT] >= 0:
            top = region[top + PARENT]
        if region[top + MARK] == stamp:
            continue
        region[top + MARK] = stamp
        ref = region[top + MATCH_LINK]
        mark_link(m, ref)
        size = 0
        if region[top + CHILD] >= 0:
            stack[0], stack[1], size = top, ref, 2
        mate = region[top + MATCH]
        if mate >= 0:
            region[mate + MARK] = stamp
            if region[mate + CHILD] >= 0:
                stack[size], stack[size + 1] = mate, ref ^ 1
                size += 2
        while size > 0:
            size -= 2
            blossom, ref = stack[size], stack[size + 1]
            inside = child_with(m, blossom, ref)
            if region[inside + CHILD] >= 0:
                stack[size], stack[size + 1] = inside, ref
                size += 2
            x = region[inside + NEXT]
            while x != inside:
                ref = region[x + NEXT_LINK]
                mark_link(m, ref)
                if region[x + CHILD] >= 0:
                    stack[size], stack[size + 1] = x, ref
                    size += 2
                x = region[x + NEXT]
                if region[x + CHILD] >= 0:
                    stack[size], stack[size + 1] = x, ref ^ 1
                    size += 2
                x = region[x + NEXT]


@njit(nogil=True)
def choose_edges(m):
    """Write the edges of the marked links to `chosen`, each as often as it is used; returns how many.

    Links and records only refer to earlier ones, so one sweep backwards settles all parities.
    """
    link, record, chosen = m.link, m.record, m.chosen
    size = 0
    for i in range(m.counter[LINKS_END] - LINK, -1, -LINK):
        if link[i + ODD] == 0:
            continue
        first, second = link[i + FAR], link[i + FAR + 1]
        if link[i + EDGE] == COMPOSITE:
            mark_link(m, first)
            mark_link(m, second)
            continue
        chosen[size] = link[i + EDGE]
        size += 1
        record[first + REC_ODD] ^= 1
        if second >= 0:
            record[second + REC_ODD] ^= 1
    for i in range(m.counter[RECORDS_END] - ARRIVED, -1, -ARRIVED):
        back = record[i + REC_BACK]
        if record[i + REC_ODD] == 0 or back < 0:
            continue
        chosen[size] = record[i + REC_EDGE]
        size += 1
        record[back + REC_ODD] ^= 1
    return size
