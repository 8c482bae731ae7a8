"""Alternating trees over regions, and the links between their defects.

The matching lives in MATCH at all times: an inner region is matched to the outer region below it. So a tree
is dissolved by flipping the path to its root and freezing the rest as it is.
"""

from __future__ import annotations

from autoqec.decoders.backends._kernels.matching_flood import schedule_area, set_slope
from autoqec.decoders.backends._kernels.matching_state import (
    BASE,
    COMPOSITE,
    EDGE,
    FAR,
    FREE_NEXT,
    FREE_REGION,
    KIDS,
    LINK,
    LINKS_END,
    MARK,
    MATCH,
    MATCH_LINK,
    N_TREES,
    NO_TIME,
    NODE,
    NONE,
    NOW,
    ODD,
    PARENT,
    R_QUEUED,
    R_WANTED,
    RECORD,
    REGION,
    REGIONS_END,
    SIBLING,
    SLOPE,
    SOURCE,
    STAMP,
    UP,
    UP_LINK,
    Memory,
    compiled,
)


@compiled
def new_region(m: Memory) -> int:
    """A growing region of radius 0, without nodes."""
    region, counter = m.region, m.counter
    r = counter[FREE_REGION]
    if r >= 0:
        counter[FREE_REGION] = region[r + FREE_NEXT]
    else:
        r = counter[REGIONS_END]
        counter[REGIONS_END] = r + REGION
    for field in range(PARENT, REGION):
        region[r + field] = NONE
    region[r + R_WANTED] = NO_TIME
    region[r + R_QUEUED] = NO_TIME
    region[r + BASE] = -counter[NOW]
    region[r + SLOPE] = 1
    return r


@compiled
def new_link(m: Memory, edge: int) -> int:
    """A link over `edge`; both ends are to be filled in with `end_link`."""
    ref = m.counter[LINKS_END]
    m.counter[LINKS_END] = ref + LINK
    m.link[ref + EDGE] = edge
    m.link[ref + ODD] = 0
    return ref


@compiled
def end_link(m: Memory, ref: int, defect: int, far: int) -> None:
    m.link[ref] = defect
    m.link[ref + FAR] = far


@compiled
def link_nodes(m: Memory, u: int, v: int, edge: int) -> int:
    """From the defect whose growth reached u to the one whose growth reached v; v may be the boundary."""
    ref: int = new_link(m, edge)
    end_link(m, ref, m.node[NODE * u + SOURCE], m.node[NODE * u + RECORD])
    if v == m.n:
        end_link(m, ref ^ 1, NONE, NONE)
    else:
        end_link(m, ref ^ 1, m.node[NODE * v + SOURCE], m.node[NODE * v + RECORD])
    return ref


@compiled
def join_links(m: Memory, ref: int, on: int) -> int:
    """The link that follows `ref` and then `on`, which starts where `ref` ends."""
    joined: int = new_link(m, COMPOSITE)
    end_link(m, joined, m.link[ref], ref)
    end_link(m, joined ^ 1, m.link[on ^ 1], on)
    return joined


@compiled
def pair(m: Memory, r: int, s: int, ref: int) -> None:
    region = m.region
    region[r + MATCH] = s
    region[r + MATCH_LINK] = ref
    region[s + MATCH] = r
    region[s + MATCH_LINK] = ref ^ 1


@compiled
def adopt(m: Memory, outer: int, inner: int, ref: int) -> None:
    """Hang an inner region below an outer one; `ref` leads up."""
    region = m.region
    region[inner + UP] = outer
    region[inner + UP_LINK] = ref
    region[inner + SIBLING] = region[outer + KIDS]
    region[outer + KIDS] = inner


@compiled
def replace_kid(m: Memory, old: int, new: int) -> None:
    """Put `new` in the place of the inner region `old` in its tree."""
    region = m.region
    outer = region[old + UP]
    region[new + UP] = outer
    region[new + UP_LINK] = region[old + UP_LINK]
    region[new + SIBLING] = region[old + SIBLING]
    place = outer + KIDS
    while region[place] != old:
        place = region[place] + SIBLING
    region[place] = new


@compiled
def augment(m: Memory, r: int, partner: int, ref: int) -> None:
    """Match the outer region r with `partner` and flip the alternating path from r to its root."""
    region = m.region
    while True:
        inner = region[r + MATCH]
        region[r + MATCH] = partner
        region[r + MATCH_LINK] = ref
        if inner < 0:
            break
        r = region[inner + UP]
        partner = inner
        ref = region[inner + UP_LINK]
        region[inner + MATCH] = r
        region[inner + MATCH_LINK] = ref
        ref ^= 1
    m.counter[N_TREES] -= 1


@compiled
def dissolve(m: Memory, r: int) -> None:
    """Freeze the whole tree of the outer region r. Call before its path is flipped."""
    region, stack = m.region, m.stack
    while region[r + MATCH] >= 0:
        r = region[region[r + MATCH] + UP]
    stack[0] = r
    done = 0
    size = 1
    while done < size:
        r = stack[done]
        done += 1
        set_slope(m, r, 0)
        kid = region[r + KIDS]
        region[r + KIDS] = NONE
        while kid >= 0:
            set_slope(m, kid, 0)
            stack[size] = region[kid + MATCH]
            size += 1
            kid = region[kid + SIBLING]
    # Outer regions only stopped growing. What grows round the inner ones must hear that they no longer yield;
    # every outer region but the root has one above it.
    for i in range(1, size):
        schedule_area(m, region[stack[i] + MATCH])


@compiled
def common_ancestor(m: Memory, r: int, s: int) -> int:
    """Lowest outer region above two outer regions; NONE if they are in different trees."""
    region = m.region
    m.counter[STAMP] += 1
    stamp = m.counter[STAMP]
    while r >= 0 or s >= 0:
        if r >= 0:
            if region[r + MARK] == stamp:
                return r
            region[r + MARK] = stamp
            inner = region[r + MATCH]
            r = region[inner + UP] if inner >= 0 else NONE
        r, s = s, r
    return NONE
