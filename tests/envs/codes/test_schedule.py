from __future__ import annotations

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoqec.envs.codes.families import build_code
from autoqec.envs.codes.schedule import IDLE, Schedule, colour_edges, colouring_schedule
from autoqec.errors import InputError

SHAPES = st.tuples(st.integers(1, 12), st.integers(1, 12))


@given(hnp.arrays(np.uint8, SHAPES, elements=st.integers(0, 1)))
def test_edge_colouring_is_proper_and_uses_as_many_colours_as_the_largest_degree(h: np.ndarray) -> None:
    colours = colour_edges(h)
    assert ((colours >= 0) == h.astype(bool)).all()
    for lines in (colours, colours.T):
        for line in lines:
            used = line[line >= 0]
            assert len(set(used.tolist())) == used.size
    assert colours.max() + 1 <= max(h.sum(axis=0).max(), h.sum(axis=1).max())


@pytest.mark.parametrize("reference", ["steane", "shor9", "reed_muller15", "bb72", "toric?distance=3"])
def test_a_colouring_measures_the_stabilisers(reference: str) -> None:
    code = build_code(reference)
    schedule = colouring_schedule(code.hx, code.hz)
    schedule.check(code.hx, code.hz, where=reference)
    degrees = [max(h.sum(axis=0).max(), h.sum(axis=1).max()) for h in (code.hx, code.hz)]
    assert schedule.period == sum(degrees) + 1


def altered(code: object, **ticks: list[int]) -> Schedule:
    """The code's schedule with ticks taken in another order."""
    tables = {side: getattr(code.schedule, side).copy() for side in ("x", "z")}
    for side, order in ticks.items():
        tables[side] = tables[side][order]
    return Schedule(**tables)


def test_wrong_schedules_are_refused() -> None:
    code = build_code("bb72")
    code.schedule.check(code.hx, code.hz, where="bb72")
    with pytest.raises(InputError, match=r"tick \d share|entangles"):
        altered(code, x=[0, 2, 1, 3, 4, 5, 6, 7]).check(code.hx, code.hz, where="bb72")
    with pytest.raises(InputError, match="no tick to measure"):
        altered(code, x=[0, 1, 2, 3, 4, 5, 7, 6]).check(code.hx, code.hz, where="bb72")
    with pytest.raises(InputError, match="no tick to measure"):
        altered(code, z=[0, 1, 2, 3, 4, 7, 5, 6]).check(code.hx, code.hz, where="bb72")
    with pytest.raises(InputError, match="does not touch"):
        altered(code, x=[0, 1, 2, 3, 4, 5, 0, 7]).check(code.hx, code.hz, where="bb72")
    with pytest.raises(InputError, match="shapes"):
        code.schedule.check(code.hx[1:], code.hz, where="bb72")


def test_an_order_that_entangles_ancillas_is_refused() -> None:
    """X goes first on one of the two shared qubits: the ancillas' readouts would be random."""
    h = np.array([[1, 1]], dtype=np.uint8)
    x = np.array([[0], [1], [IDLE], [IDLE]], dtype=np.int32)
    z = np.array([[1], [0], [IDLE], [IDLE]], dtype=np.int32)
    with pytest.raises(InputError, match="entangles X check 0 with Z check 0"):
        Schedule(x=x, z=z).check(h, h, where="pair")


def test_two_gates_on_one_qubit_in_a_tick_are_refused() -> None:
    h = np.array([[1, 1]], dtype=np.uint8)
    table = np.array([[0], [1], [IDLE], [IDLE]], dtype=np.int32)
    with pytest.raises(InputError, match="two gates of tick 0"):
        Schedule(x=table, z=table).check(h, h, where="pair")
