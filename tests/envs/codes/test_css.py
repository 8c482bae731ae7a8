from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoqec.envs.codes import gf2
from autoqec.envs.codes.css import classical_code, css_code
from autoqec.errors import InputError

HAMMING = np.array([[1, 0, 1, 0, 1, 0, 1], [0, 1, 1, 0, 0, 1, 1], [0, 0, 0, 1, 1, 1, 1]], dtype=np.uint8)


def random_checks(seed: int, n: int, mx: int, mz: int) -> tuple[np.ndarray, np.ndarray]:
    """Commuting checks: Z rows are random sums of vectors orthogonal to all X rows."""
    rng = np.random.default_rng(seed)
    hx = rng.integers(0, 2, (mx, n), dtype=np.uint8)
    kernel = gf2.nullspace(hx)
    return hx, gf2.product(rng.integers(0, 2, (mz, len(kernel)), dtype=np.uint8), kernel)


@given(st.integers(0, 10**6), st.integers(4, 40), st.integers(1, 8), st.integers(1, 8))
def test_logical_operators_of_random_css_codes(seed: int, n: int, mx: int, mz: int) -> None:
    hx, hz = random_checks(seed, n, mx, mz)
    k = n - gf2.rank(hx) - gf2.rank(hz)
    if k == 0:
        with pytest.raises(InputError, match="no logical qubit"):
            css_code("random", hx, hz)
        return
    code = css_code("random", hx, hz)
    assert code.k == k
    assert (gf2.product(code.lx, code.lz.T) == np.eye(k)).all()
    assert not gf2.product(code.hz, code.lx.T).any()
    assert not gf2.product(code.hx, code.lz.T).any()
    assert not gf2.in_row_space(code.hx, code.lx).any()
    assert not gf2.in_row_space(code.hz, code.lz).any()
    # With the stabilisers they span all operators that commute with every check.
    assert gf2.rank(np.concatenate([code.hx, code.lx])) == n - gf2.rank(hz)


@given(st.integers(0, 10**6), st.integers(2, 30), st.integers(1, 10))
def test_no_codeword_escapes_the_observables_of_a_classical_code(seed: int, n: int, m: int) -> None:
    h = np.random.default_rng(seed).integers(0, 2, (m, n), dtype=np.uint8)
    words = gf2.nullspace(h)
    if not len(words):
        with pytest.raises(InputError, match="nothing to protect"):
            classical_code("random", h)
        return
    code = classical_code("random", h)
    assert code.k == len(words)
    assert (code.l.sum(axis=1) == 1).all()
    assert gf2.rank(gf2.product(words, code.l.T)) == code.k


def test_given_logical_operators_are_kept_and_completed() -> None:
    ones = np.ones((1, 7), dtype=np.uint8)
    code = css_code("steane", HAMMING, HAMMING, lz=ones)
    assert (code.lz == ones).all()
    assert (gf2.product(code.lx, code.lz.T) == 1).all()
    code = css_code("steane", HAMMING, HAMMING, lx=ones)
    assert (code.lx == ones).all()
    assert (css_code("steane", HAMMING, HAMMING, lx=ones, lz=ones).lz == ones).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lx": np.eye(1, 7)}, "row 0 of Lx anticommutes with Z check 0"),
        ({"lz": HAMMING[:1]}, "Lz do not span"),
        ({"lx": np.ones((2, 7))}, r"shape \(2, 7\), expected \(1, 7\)"),
        ({"qubit_coords": np.zeros((6, 2))}, "expected 7 rows"),
        ({"x_coords": np.full((3, 2), np.nan)}, "finite"),
    ],
)
def test_wrong_extras_are_refused(options: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(InputError, match=message):
        css_code("steane", HAMMING, HAMMING, **options)


def test_unpaired_logical_operators_are_refused() -> None:
    empty_checks = np.array([[1, 1, 1, 1]])
    lx = np.array([[1, 1, 0, 0], [1, 0, 1, 0]])
    with pytest.raises(InputError, match="not the identity"):
        css_code("four", empty_checks, empty_checks, lx=lx, lz=lx)


def test_anticommuting_checks_are_named() -> None:
    hx = np.array([[1, 1, 0, 0], [1, 1, 1, 1]])
    hz = np.array([[1, 1, 0, 0], [0, 1, 1, 0]])
    with pytest.raises(InputError, match=r"X check 0 and Z check 1 anticommute.*\[1\]") as caught:
        css_code("bad", hx, hz, where="code.npz")
    assert str(caught.value).startswith("code.npz: ")
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("hx", "hz", "message"),
    [
        ([[1, 2, 0]], [[1, 1, 0]], r"Hx\[0, 1\] = 2, expected 0 or 1"),
        ([[1, 1, 0]], [[1, np.nan, -1]], r"Hz\[0, 1\] = nan.*1 more"),
        ([[1, 1, 0]], [[1, 1]], "3 columns and Hz has 2"),
        ([1, 1], [[1, 1]], "1 dimension"),
        (np.zeros((0, 3)), [[1, 1, 0]], "empty"),
        ([["1", "1"]], [[1, 1]], "expected numbers"),
        ([[1, 1]], [[1, 1]], "no logical qubit"),
    ],
)
def test_malformed_checks_are_refused(hx: object, hz: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        css_code("bad", hx, hz)  # type: ignore[arg-type]


def test_observables_that_miss_a_codeword_are_refused() -> None:
    with pytest.raises(InputError, match="flips none"):
        classical_code("hamming", HAMMING, l=np.eye(3, 7))
    with pytest.raises(InputError, match="6 columns"):
        classical_code("hamming", HAMMING, l=np.eye(3, 6))


def test_distance_bound_does_not_depend_on_the_order_of_qubits() -> None:
    order = np.random.default_rng(3).permutation(7)
    assert css_code("steane", HAMMING[:, order], HAMMING[:, order]).distance_bound("x", trials=5) == 3
    assert classical_code("hamming", HAMMING[:, order]).distance_bound(trials=5) == 3


@given(st.integers(0, 10**6))
def test_distance_bound_is_exact_on_small_codes(seed: int) -> None:
    hx, hz = random_checks(seed, 9, 3, 3)
    if gf2.rank(hx) + gf2.rank(hz) == 9:
        return
    code = css_code("random", hx, hz)
    words = (np.arange(2**9)[:, None] >> np.arange(9) & 1).astype(np.uint8)
    is_logical = ~gf2.product(words, hz.T).any(axis=1) & gf2.product(words, code.lz.T).any(axis=1)
    assert code.distance_bound("x", trials=20) == words[is_logical].sum(axis=1).min()
