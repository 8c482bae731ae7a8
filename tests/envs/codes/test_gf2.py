from __future__ import annotations

import itertools

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoqec.envs.codes import gf2

BITS = st.integers(0, 1)


def matrices(max_rows: int = 8, max_columns: int = 8) -> st.SearchStrategy[np.ndarray]:
    shapes = st.tuples(st.integers(1, max_rows), st.integers(1, max_columns))
    return hnp.arrays(np.uint8, shapes, elements=BITS)


def span(matrix: np.ndarray) -> set[bytes]:
    words = itertools.product([0, 1], repeat=matrix.shape[0])
    return {(np.array(w, dtype=np.int64) @ matrix % 2).astype(np.uint8).tobytes() for w in words}


@given(matrices(max_columns=200))
def test_packing_is_undone_by_unpacking(matrix: np.ndarray) -> None:
    assert (gf2.unpack_rows(gf2.pack_rows(matrix), matrix.shape[1]) == matrix).all()


@given(matrices())
def test_rank_is_the_log_of_the_number_of_sums_of_rows(matrix: np.ndarray) -> None:
    assert 2 ** gf2.rank(matrix) == len(span(matrix))


@given(matrices(max_rows=20, max_columns=150))
def test_rank_plus_nullity_is_the_number_of_columns(matrix: np.ndarray) -> None:
    kernel = gf2.nullspace(matrix)
    assert gf2.rank(matrix) + len(kernel) == matrix.shape[1]
    assert gf2.rank(kernel) == len(kernel)
    assert not gf2.product(matrix, kernel.T).any()


@given(matrices())
def test_row_reduction_keeps_the_row_space_and_clears_pivot_columns(matrix: np.ndarray) -> None:
    reduced, pivots = gf2.row_reduce(matrix)
    assert (reduced[:, pivots] == np.eye(len(pivots))).all()
    assert pivots == sorted(pivots)
    assert span(reduced) == span(matrix)


@given(matrices(), st.data())
def test_solve_finds_a_solution_exactly_when_there_is_one(matrix: np.ndarray, data: st.DataObject) -> None:
    target = data.draw(hnp.arrays(np.uint8, matrix.shape[0], elements=BITS))
    x = gf2.solve(matrix, target)
    assert (x is not None) == (target.tobytes() in span(np.ascontiguousarray(matrix.T)))
    if x is not None:
        assert (matrix.astype(int) @ x % 2 == target).all()


@given(matrices(), st.data())
def test_row_space_membership_agrees_with_enumeration(matrix: np.ndarray, data: st.DataObject) -> None:
    vectors = data.draw(hnp.arrays(np.uint8, (3, matrix.shape[1]), elements=BITS))
    expected = [vector.tobytes() in span(matrix) for vector in vectors]
    assert gf2.in_row_space(matrix, vectors).tolist() == expected


@given(matrices(), st.data())
def test_independent_rows_complete_a_basis(base: np.ndarray, data: st.DataObject) -> None:
    candidates = data.draw(hnp.arrays(np.uint8, (4, base.shape[1]), elements=BITS))
    chosen = gf2.independent_rows(base, candidates)
    everything = np.concatenate([base, candidates])
    assert gf2.rank(base) + len(chosen) == gf2.rank(everything)
    assert gf2.rank(np.concatenate([base, candidates[chosen]])) == gf2.rank(everything)


def test_inverse() -> None:
    matrix = np.array([[1, 1, 0], [0, 1, 1], [0, 0, 1]], dtype=np.uint8)
    assert (gf2.product(matrix, gf2.inverse(matrix)) == np.eye(3)).all()
    with pytest.raises(ValueError, match="singular"):
        gf2.inverse(np.ones((2, 2), dtype=np.uint8))


def test_matrices_without_rows_are_fine() -> None:
    empty = np.zeros((0, 5), dtype=np.uint8)
    assert gf2.rank(empty) == 0
    assert (gf2.nullspace(empty) == np.eye(5)).all()
    assert gf2.in_row_space(empty, np.eye(5, dtype=np.uint8)[:1]).tolist() == [False]


def test_a_thousand_columns() -> None:
    rng = np.random.default_rng(1)
    matrix = rng.integers(0, 2, (700, 1000), dtype=np.uint8)
    matrix[500:] = gf2.product(rng.integers(0, 2, (200, 500), dtype=np.uint8), matrix[:500])
    kernel = gf2.nullspace(matrix)
    assert kernel.shape == (500, 1000)
    assert not gf2.product(matrix, kernel.T).any()
