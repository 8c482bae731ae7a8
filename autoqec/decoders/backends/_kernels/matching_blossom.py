"""What happens when regions meet: trees grow or are matched, odd cycles become blossoms and break up."""

from __future__ import annotations

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
    FREE_NEXT,
    FREE_REGION,
    KIDS,
    MATCH,
    MATCH_LINK,
    NEXT,
    NEXT_LINK,
    NONE,
    PARENT,
    SIBLING,
    SLOPE,
    UP,
    UP_LINK,
    Memory,
    compiled,
)
from autoqec.decoders.backends._kernels.matching_tree import (
    adopt,
    augment,
    common_ancestor,
    dissolve,
    join_links,
    new_region,
    pair,
    replace_kid,
)


@compiled
def child_with(m: Memory, blossom: int, ref: int) -> int:
    """The child of a blossom at whose defect the link starts."""
    r = m.link[ref]
    while m.region[r + PARENT] != blossom:
        r = m.region[r + PARENT]
    return r


@compiled
def close_cycle(m: Memory, top: int, r: int, s: int, ref: int) -> None:
    """Set NEXT round the cycle that the link r - s closes with the two tree paths up to `top`."""
    region = m.region
    x, after, link = r, s, ref
    while True:
        region[x + NEXT] = after
        region[x + NEXT_LINK] = link
        if x == top:
            break
        after = region[x + MATCH]
        region[after + NEXT] = x
        region[after + NEXT_LINK] = region[after + MATCH_LINK]
        x = region[after + UP]
        link = region[after + UP_LINK] ^ 1
    x = s
    while x != top:
        inner = region[x + MATCH]
        region[x + NEXT] = inner
        region[x + NEXT_LINK] = region[x + MATCH_LINK]
        x = region[inner + UP]
        region[inner + NEXT] = x
        region[inner + NEXT_LINK] = region[inner + UP_LINK]


@compiled
def make_blossom(m: Memory, top: int, r: int, s: int, ref: int) -> None:
    """Contract the odd cycle top .. r - s .. top of outer and inner regions into one outer region."""
    region = m.region
    close_cycle(m, top, r, s, ref)
    blossom = new_region(m)
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


@compiled
def break_blossom(m: Memory, blossom: int) -> None:
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
    # The cycle is linked one way only; where the even way runs against it, the tree is built from below.
    upwards = steps & 1
    start, end = (last, first) if upwards else (first, last)
    x = start
    set_slope(m, x, -1)
    while x != end:
        outer = region[x + NEXT]
        inner = region[outer + NEXT]
        if upwards:
            adopt(m, outer, x, region[x + NEXT_LINK])
            pair(m, outer, inner, region[outer + NEXT_LINK])
        else:
            pair(m, x, outer, region[x + NEXT_LINK])
            adopt(m, outer, inner, region[outer + NEXT_LINK] ^ 1)
        set_slope(m, outer, 1)
        set_slope(m, inner, -1)
        x = inner
    replace_kid(m, blossom, first)
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


@compiled
def implode(m: Memory, r: int) -> None:
    """An inner defect is squeezed to radius 0 between its tree neighbours: they touch through it."""
    region = m.region
    above, below = region[r + UP], region[r + MATCH]
    through = join_links(m, region[r + UP_LINK] ^ 1, region[r + MATCH_LINK])
    make_blossom(m, above, above, below, through)


@compiled
def hit_boundary(m: Memory, r: int, ref: int) -> None:
    dissolve(m, r)
    augment(m, r, BOUNDARY_MATCH, ref)


@compiled
def hit_region(m: Memory, r: int, s: int, ref: int) -> None:
    """The growing region r meets s, which grows or is matched; `ref` leads from r to s."""
    region = m.region
    if region[s + SLOPE] > 0:
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
