"""Alternating trees over regions: growing a tree, augmenting, forming blossoms and breaking them up.

The matching lives in MATCH at all times, so a tree is dissolved by flipping the path to its root and freezing
the rest: inner regions are already matched to the outer region below them.
"""

from __future__ import annotations

from numba import njit

from autoqec.decoders.backends._kernels.matching_flood import (
    hand_area,
    schedule_area,
    schedule_shrink,
    set_slope,
)
from autoqec.decoders.backends._kernels.matching_state import (
    BASE,
    BOUNDARY_MATCH,
    CHILD,
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
    NEXT,
    NEXT_LINK,
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
)


@njit(nogil=True)
def new_region(m):
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
    m.region[r + SLOPE] = 1
    return r


@njit(nogil=True)
def new_link(m, source, target, record, target_record, edge):
    ref = m.counter[LINKS_END]
    m.counter[LINKS_END] = ref + LINK
    link = m.link
    link[ref] = source
    link[ref + 1] = target
    link[ref + FAR] = record
    link[ref + FAR + 1] = target_record
    link[ref + EDGE] = edge
    link[ref + ODD] = 0
    return ref


@njit(nogil=True)
def link_nodes(m, u, v, edge):
    node = m.node
    u *= NODE
    v *= NODE
    return new_link(m, node[u + SOURCE], node[v + SOURCE], node[u + RECORD], node[v + RECORD], edge)


@njit(nogil=True)
def link_boundary(m, u, edge):
    return new_link(m, m.node[NODE * u + SOURCE], NONE, m.node[NODE * u + RECORD], NONE, edge)


@njit(nogil=True)
def child_with(m, blossom, ref):
    """The child of a blossom at whose defect the link starts."""
    r = m.link[ref]
    while m.region[r + PARENT] != blossom:
        r = m.region[r + PARENT]
    return r


@njit(nogil=True)
def adopt(m, outer, inner, ref):
    """Hang an inner region below an outer one; `ref` leads up."""
    region = m.region
    region[inner + UP] = outer
    region[inner + UP_LINK] = ref
    region[inner + SIBLING] = region[outer + KIDS]
    region[outer + KIDS] = inner


@njit(nogil=True)
def pair(m, r, s, ref):
    region = m.region
    region[r + MATCH] = s
    region[r + MATCH_LINK] = ref
    region[s + MATCH] = r
    region[s + MATCH_LINK] = ref ^ 1


@njit(nogil=True)
def augment(m, r, partner, ref):
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


@njit(nogil=True)
def dissolve(m, r):
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
    # Outer regions only stopped growing; what lies round the inner ones must be told that they no longer yield.
    # Except the root, every outer region of the tree came with its inner partner.
    for i in range(1, size):
        schedule_area(m, region[stack[i] + MATCH])


@njit(nogil=True)
def common_ancestor(m, r, s):
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


@njit(nogil=True)
def make_blossom(m, top, r, s, ref):
    """Contract the odd cycle top .. r - s .. top of outer and inner regions into one outer region."""
    region = m.region
    blossom = new_region(m)
    x, following, link = r, s, ref
    while True:
        region[x + NEXT] = following
        region[x + NEXT_LINK] = link
        if x == top:
            break
        following = region[x + MATCH]
        region[following + NEXT] = x
        region[following + NEXT_LINK] = region[following + MATCH_LINK]
        x = region[following + UP]
        link = region[following + UP_LINK] ^ 1
    x = s
    while x != top:
        inner = region[x + MATCH]
        region[x + NEXT] = inner
        region[x + NEXT_LINK] = region[x + MATCH_LINK]
        x = region[inner + UP]
        region[inner + NEXT] = x
        region[inner + NEXT_LINK] = region[inner + UP_LINK]
    region[blossom + CHILD] = top
    x = top
    while True:
        set_slope(m, x, 0)
        hand_area(m, x, blossom, region[x + BASE])
        region[x + PARENT] = blossom
        x = region[x + NEXT]
        if x == top:
            break
    while True:
        kid = region[x + KIDS]
        region[x + KIDS] = NONE
        while kid >= 0:
            sibling = region[kid + SIBLING]
            if region[kid + PARENT] != blossom:
                adopt(m, blossom, kid, region[kid + UP_LINK])
            kid = sibling
        x = region[x + NEXT]
        if x == top:
            break
    if region[top + MATCH] >= 0:
        pair(m, blossom, region[top + MATCH], region[top + MATCH_LINK])
    schedule_area(m, blossom)


@njit(nogil=True)
def break_blossom(m, blossom):
    """Expand an inner blossom of radius 0: the even way round becomes tree, the rest matched pairs."""
    region = m.region
    first = child_with(m, blossom, region[blossom + UP_LINK])
    last = child_with(m, blossom, region[blossom + MATCH_LINK])
    x = first
    while True:
        hand_area(m, x, x, -region[x + BASE])
        region[x + PARENT] = NONE
        x = region[x + NEXT]
        if x == first:
            break
    steps = 0
    while x != last:
        x = region[x + NEXT]
        steps += 1
    upwards = steps & 1
    start, end = (last, first) if upwards else (first, last)
    x = start
    set_slope(m, x, -1)
    while x != end:
        outer = region[x + NEXT]
        inner = region[outer + NEXT]
        region[outer + KIDS] = NONE
        if upwards:
            adopt(m, outer, x, region[x + NEXT_LINK])
            pair(m, outer, inner, region[outer + NEXT_LINK])
        else:
            pair(m, x, outer, region[x + NEXT_LINK])
            adopt(m, outer, inner, region[outer + NEXT_LINK] ^ 1)
        set_slope(m, outer, 1)
        set_slope(m, inner, -1)
        x = inner
    _replace_kid(m, region[blossom + UP], blossom, first)
    pair(m, last, region[blossom + MATCH], region[blossom + MATCH_LINK])
    x = region[end + NEXT]
    while x != start:
        mate = region[x + NEXT]
        pair(m, x, mate, region[x + NEXT_LINK])
        x = region[mate + NEXT]
    while True:
        if region[x + SLOPE] < 0:
            schedule_shrink(m, x)
        else:
            schedule_area(m, x)
        x = region[x + NEXT]
        if x == start:
            break
    region[blossom + FREE_NEXT] = m.counter[FREE_REGION]
    m.counter[FREE_REGION] = blossom


@njit(nogil=True)
def _replace_kid(m, outer, old, new):
    region = m.region
    region[new + UP] = outer
    region[new + UP_LINK] = region[old + UP_LINK]
    region[new + SIBLING] = region[old + SIBLING]
    if region[outer + KIDS] == old:
        region[outer + KIDS] = new
        return
    kid = region[outer + KIDS]
    while region[kid + SIBLING] != old:
        kid = region[kid + SIBLING]
    region[kid + SIBLING] = new


@njit(nogil=True)
def hit_boundary(m, r, ref):
    dissolve(m, r)
    augment(m, r, BOUNDARY_MATCH, ref)


@njit(nogil=True)
def hit_region(m, r, s, ref):
    """The growing region r meets s, which grows or is matched; `ref` leads from r to s."""
    region = m.region
    if m.region[s + SLOPE] > 0:
        top = common_ancestor(m, r, s)
        if top >= 0:
            make_blossom(m, top, r, s, ref)
            return
        dissolve(m, r)
        dissolve(m, s)
        augment(m, r, s, ref)
        augment(m, s, r, ref ^ 1)
        return
    mate = region[s + MATCH]
    if mate == BOUNDARY_MATCH:
        dissolve(m, r)
        augment(m, r, s, ref)
        region[s + MATCH] = r
        region[s + MATCH_LINK] = ref ^ 1
        return
    adopt(m, r, s, ref ^ 1)
    set_slope(m, s, -1)
    set_slope(m, mate, 1)
    schedule_shrink(m, s)
    schedule_area(m, mate)


@njit(nogil=True)
def implode(m, r):
    """An inner defect is squeezed to radius 0 between its tree neighbours: they touch through it."""
    region = m.region
    outer, below = region[r + UP], region[r + MATCH]
    down, on = region[r + UP_LINK] ^ 1, region[r + MATCH_LINK]
    joined = new_link(m, m.link[down], m.link[on ^ 1], down, on, COMPOSITE)
    make_blossom(m, outer, outer, below, joined)
