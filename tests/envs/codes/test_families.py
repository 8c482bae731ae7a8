from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from autoqec.envs.codes import gf2
from autoqec.envs.codes.css import ClassicalCode, CSSCode
from autoqec.envs.codes.families import FAMILIES, SHORT_NAMES, build_code
from autoqec.errors import InputError

# name: n, k, lightest X and Z logical operators
QUANTUM = {
    "steane": (7, 1, 3, 3),
    "shor9": (9, 1, 3, 3),
    "reed_muller15": (15, 1, 7, 3),
    "toric?distance=2": (8, 2, 2, 2),
    "toric?distance=3": (18, 2, 3, 3),
    "toric?distance=4": (32, 2, 4, 4),
    "rotated_surface?distance=2": (4, 1, 2, 2),
    "rotated_surface?distance=3": (9, 1, 3, 3),
    "rotated_surface?distance=5": (25, 1, 5, 5),
    "bb72": (72, 12, 6, 6),
    "bb90": (90, 8, 10, 10),
    "bb108": (108, 8, 10, 10),
    "bb144": (144, 12, 12, 12),
    "bivariate_bicycle?l=3&m=3&a=1+x&b=1+y": (18, 2, 3, 3),
    "hypergraph_product?h1=ring?distance=3&h2=ring?distance=3": (18, 2, 3, 3),
    "hypergraph_product?h1=repetition?distance=3&h2=repetition?distance=3": (13, 1, 3, 3),
    "hypergraph_product?h1=hamming?r=3&h2=(hamming?r=3)": (58, 16, 3, 3),
    "css?hx=hamming?r=3&hz=hamming?r=3": (7, 1, 3, 3),
}
CLASSICAL = {
    "repetition?distance=9": (9, 1, 9, 8),
    "ring?distance=5": (5, 1, 5, 5),
    "ring?distance=2": (2, 1, 2, 2),
    "hamming?r=3": (7, 4, 3, 3),
    "hamming?r=4": (15, 11, 3, 4),
}


@pytest.mark.parametrize("reference", QUANTUM)
def test_css_families_have_their_published_parameters(reference: str) -> None:
    code = build_code(reference)
    assert isinstance(code, CSSCode)
    n, k, dx, dz = QUANTUM[reference]
    assert (code.n, code.k) == (n, k)
    assert code.distance_bound("x", trials=30) == dx
    assert code.distance_bound("z", trials=30) == dz
    assert code.name == reference


@pytest.mark.parametrize("reference", QUANTUM)
def test_logical_operators_anticommute_in_pairs_and_are_no_stabilisers(reference: str) -> None:
    code = build_code(reference)
    assert isinstance(code, CSSCode)
    assert (gf2.product(code.lx, code.lz.T) == np.eye(code.k)).all()
    assert not gf2.product(code.hx, code.lz.T).any()
    assert not gf2.product(code.hz, code.lx.T).any()
    assert not gf2.in_row_space(code.hx, code.lx).any()
    assert not gf2.in_row_space(code.hz, code.lz).any()


@pytest.mark.parametrize("reference", CLASSICAL)
def test_classical_families_have_their_parameters(reference: str) -> None:
    code = build_code(reference)
    assert isinstance(code, ClassicalCode)
    assert (code.n, code.k, code.distance_bound(trials=20), code.m) == CLASSICAL[reference]


def test_every_family_is_tested_here() -> None:
    tested = {reference.partition("?")[0] for reference in (*QUANTUM, *CLASSICAL)}
    assert tested >= FAMILIES.keys()
    assert all(family.summary for family in FAMILIES.values())


def test_bb288_has_twelve_logical_qubits() -> None:
    code = build_code("bb288")
    assert (code.n, code.k) == (288, 12)


@pytest.mark.parametrize("name", SHORT_NAMES)
def test_short_names_stand_for_their_long_form_with_the_published_cycle(name: str) -> None:
    code, spelled = build_code(name), build_code(SHORT_NAMES[name])
    assert isinstance(code, CSSCode)
    assert isinstance(spelled, CSSCode)
    assert (code.hx == spelled.hx).all()
    assert code.schedule is not None
    assert code.schedule.period == 8
    assert (code.hx.sum(axis=1) == 6).all()
    assert (code.hz.sum(axis=0) == 3).all()


def test_polynomials_may_be_written_in_several_ways() -> None:
    codes = [
        build_code(f"bivariate_bicycle?l=6&m=6&a={a}&b=y3+x+x2")
        for a in ("x3+y+y2", "x^3+y+y^2", "x9+y^-5+y2", "x3%2By%2By2")
    ]
    assert all((code.hx == codes[0].hx).all() for code in codes)
    mixed = [
        build_code(f"bivariate_bicycle?l=4&m=4&a=1+{t}&b=1+y") for t in ("xy2", "x*y2", "x^1*y^2", "x1y2")
    ]
    assert all((code.hx == mixed[0].hx).all() for code in mixed)


def test_matrix_files_are_relative_to_the_base_folder(tmp_path: Path) -> None:
    ring = build_code("ring?distance=3")
    np.save(tmp_path / "ring.npy", ring.h)
    product = "hypergraph_product?h1=ring.npy&h2=ring?distance=3"
    assert build_code(product, base=tmp_path).k == 2
    with pytest.raises(InputError, match="no such file"):
        build_code(product)


def test_a_product_accepts_a_matrix_of_full_column_rank(tmp_path: Path) -> None:
    """Such a matrix is not a classical code, but its transpose is."""
    np.save(tmp_path / "h.npy", build_code("repetition?distance=3").h.T)
    code = build_code("hypergraph_product?h1=h.npy&h2=h.npy", base=tmp_path)
    assert (code.n, code.k) == (13, 1)


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("torric?distance=3", "no code family 'torric'; did you mean 'toric'"),
        ("bb73", "did you mean 'bb72'"),
        ("nothing", "known: .*bb72.*toric"),
        ("toric", "needs 'distance'"),
        ("toric?distance=1", "out of range"),
        ("toric?size=3", "no parameter 'size'"),
        ("steane?distance=3", "write steane alone"),
        ("bb72?l=6", "no parameter 'l'"),
        ("bivariate_bicycle?l=6&m=6&a=x3+q&b=y", "'q' is not a monomial"),
        ("bivariate_bicycle?l=6&m=6&a=x3++y&b=y", "'' is not a monomial"),
        ("bivariate_bicycle?l=6&m=6&a=x3*&b=y", "not a monomial"),
        ("bivariate_bicycle?l=6&m=6&a=x3+x9&b=y", "cancels"),
        ("bivariate_bicycle?l=3&m=3&a=1&b=1", "no logical qubit"),
        ("bivariate_bicycle?l=60&m=60&a=1+x&b=1+y", "at most 4096"),
        ("hypergraph_product?h1=steane&h2=ring?distance=3", "no classical code family 'steane'"),
        ("hypergraph_product?h1=ring?distance=200&h2=ring?distance=200", "at most"),
        ("hypergraph_product?h1=ring?distance=1&h2=ring?distance=3", "out of range"),
        ("css?hx=ring?distance=3&hz=ring?distance=4", "3 columns and Hz has 4"),
        ("css?hx=missing.mtx&hz=missing.mtx", "no such file"),
    ],
)
def test_wrong_references_are_refused(reference: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        build_code(reference)


def test_nesting_is_bounded() -> None:
    deep = "hypergraph_product?h1=(" * 2000 + "ring?distance=3" + ")&h2=ring?distance=3" * 2000
    with pytest.raises(InputError, match="no classical code family"):
        build_code(deep)
