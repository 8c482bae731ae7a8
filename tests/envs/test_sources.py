"""Every way to give a code, through a whole environment file."""

from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
import yaml

from autoqec.envs.codes.families import build_code
from autoqec.envs.load import load_env
from autoqec.envs.packing import unpack

STEANE = build_code("steane")


def write_alist(path: Path, h: np.ndarray) -> None:
    m, n = h.shape
    columns = [np.flatnonzero(h[:, j]) + 1 for j in range(n)]
    rows = [np.flatnonzero(h[i]) + 1 for i in range(m)]
    deepest = max(map(len, columns)), max(map(len, rows))
    lines = [
        f"{n} {m}",
        f"{deepest[0]} {deepest[1]}",
        " ".join(str(len(c)) for c in columns),
        " ".join(str(len(r)) for r in rows),
    ]
    lines += [" ".join(map(str, [*part, *[0] * (deepest[0] - len(part))])) for part in columns]
    lines += [" ".join(map(str, [*part, *[0] * (deepest[1] - len(part))])) for part in rows]
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("codes")
    np.savez(path / "steane.npz", Hx=STEANE.hx, Hz=STEANE.hz)
    np.save(path / "hz.npy", STEANE.hz)
    scipy.io.mmwrite(path / "hz.mtx", sp.coo_array(STEANE.hz.astype(int)))
    write_alist(path / "hz.alist", STEANE.hz)
    graph = nx.Graph()
    for kind, matrix in (("X", STEANE.hx), ("Z", STEANE.hz)):
        for c, row in enumerate(matrix):
            graph.add_node(f"{kind}{c}", type=kind)
            for b in np.flatnonzero(row).tolist():
                graph.add_node(f"b{b}", type="bit")
                graph.add_edge(f"{kind}{c}", f"b{b}")
    nx.write_graphml(graph, path / "steane.graphml")
    edges = [f"c{c} b{b}" for c, row in enumerate(STEANE.hz) for b in np.flatnonzero(row)]
    (path / "hz.edges").write_text("# Steane, Z checks\n" + "\n".join(edges) + "\n")
    return path


def environment(folder: Path, source: str, kind: str, noise: dict, **changes):
    spec = {
        "name": "trial",
        "code": {"type": kind, "source": source},
        "noise": {"type": "depolarizing", "p": [0.02], **noise},
        "constraints": {},
        "baseline_decoders": [],
        "classical_backend": "osd",
        **changes,
    }
    path = folder / "trial.yaml"
    path.write_text(yaml.safe_dump(spec))
    return load_env(path)


MATRICES = ["hz.npy", "hz.mtx", "hz.alist"]


@pytest.mark.parametrize(
    ("source", "kind"), [*((m, "parity_check_matrix") for m in MATRICES), ("hz.edges", "tanner_graph")]
)
@pytest.mark.parametrize(
    ("level", "detectors", "faults"), [("code_capacity", 3, 7), ("phenomenological", 12, 30)]
)
def test_one_matrix(folder, source, kind, level, detectors, faults) -> None:
    env = environment(folder, source, kind, {"level": level})
    problem = env.problem(0.02)
    assert (problem.n_checks, problem.n_faults) == (detectors, faults)
    assert problem.priors.min() == pytest.approx(2 * 0.02 / 3)  # the X and Y part of depolarising noise
    assert unpack(env.sampler(0.02).sample(500, 1).detectors, detectors).any()


@pytest.mark.parametrize(
    ("source", "kind"), [("steane.npz", "parity_check_matrix"), ("steane.graphml", "tanner_graph")]
)
@pytest.mark.parametrize(
    "noise",
    [{}, {"type": "biased"}, {"type": "leakage"}, {"variant": "si1000"}, {"level": "phenomenological"}],
)
def test_both_matrices(folder, source, kind, noise) -> None:
    env = environment(folder, source, kind, noise)
    problem = env.problem(0.02)
    assert set(problem.detector_basis.tolist()) == {"Z"}  # the observables' basis, as OSD wants it
    assert problem.n_checks == 3 * 4  # three rounds, the distance, and the final readout
    assert problem.n_observables == 1
    assert unpack(env.sampler(0.02).sample(500, 1).detectors, problem.n_checks).any()


def test_an_x_memory_watches_the_x_checks(folder) -> None:
    env = environment(
        folder,
        "steane.npz",
        "parity_check_matrix",
        {},
        code={"type": "parity_check_matrix", "source": "steane.npz", "memory_basis": "x"},
    )
    assert set(env.problem(0.02).detector_basis.tolist()) == {"X"}


def test_all_formats_give_the_same_problem(folder) -> None:
    problems = [environment(folder, m, "parity_check_matrix", {}).problem(0.02) for m in MATRICES]
    for other in problems[1:]:
        assert (other.h != problems[0].h).nnz == 0
        assert (other.l != problems[0].l).nnz == 0
