"""From matched regions to the edges of the correction."""

from __future__ import annotations

from autoqec.decoders.backends._kernels.matching_blossom import child_with
from autoqec.decoders.backends._kernels.matching_state import (
    ARRIVED,
    CHILD,
    COMPOSITE,
    EDGE,
    FAR,
    LINK,
    LINKS_END,
    MARK,
    MATCH,
    MATCH_LINK,
    NEXT,
    NEXT_LINK,
    ODD,
    PARENT,
    REC_BACK,
    REC_EDGE,
    REC_ODD,
    RECORDS_END,
    REGION,
    STAMP,
    Memory,
    compiled,
)


@compiled
def mark_link(m: Memory, ref: int) -> None:
    m.link[(ref | 1) - 1 + ODD] ^= 1


@compiled
def stack_blossom(m: Memory, size: int, r: int, ref: int) -> int:
    """Remember to go into r if it is a blossom; `ref` starts at its defect that is matched outside."""
    if m.region[r + CHILD] < 0:
        return size
    m.stack[size] = r
    m.stack[size + 1] = ref
    return size + 2


@compiled
def mark_links(m: Memory, n_defects: int) -> None:
    """Set ODD on the links of the final matching, going down into every blossom."""
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
        size = stack_blossom(m, 0, top, ref)
        mate = region[top + MATCH]
        if mate >= 0:
            region[mate + MARK] = stamp
            size = stack_blossom(m, size, mate, ref ^ 1)
        while size > 0:
            size -= 2
            ref = stack[size + 1]
            inside = child_with(m, stack[size], ref)
            size = stack_blossom(m, size, inside, ref)
            x = region[inside + NEXT]
            while x != inside:
                ref = region[x + NEXT_LINK]
                mark_link(m, ref)
                size = stack_blossom(m, size, x, ref)
                x = region[x + NEXT]
                size = stack_blossom(m, size, x, ref ^ 1)
                x = region[x + NEXT]


@compiled
def choose_edges(m: Memory) -> int:
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
