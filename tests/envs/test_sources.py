"""Every way to give a code, through a whole environment file."""

from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
import yaml

from autoqec.envs.codes.css import classical_code
from autoqec.envs.codes.families import build_code
from autoqec.envs.environment import Environment
from autoqec.envs.load import load_env
from autoqec.envs.packing import unpack
from autoqec.envs.schema import EnvSpec
from autoqec.envs.sources.referenced import referenced

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


def test_the_files_of_an_environment_are_those_it_refers_to(tmp_path: Path) -> None:
    """A file that is listed and missing from a copy, or used and not listed, would show here."""
    h = np.array([[1, 1, 0], [0, 1, 1]], dtype=np.uint8)
    (tmp_path / "sub").mkdir()
    np.savez(tmp_path / "a b.npz", H=h)
    np.savez(tmp_path / "sub" / "z.npz", H=h)
    (tmp_path / "unrelated.npz").write_bytes(b"")
    spec = load_env("surface_d3_depol").spec.model_dump()
    for source, names in {
        "hypergraph_product?h1=a%20b.npz&h2=sub/z.npz": ["a b.npz", "sub/z.npz"],
        "hypergraph_product?h1=repetition?distance=3&h2=a%20b.npz": ["a b.npz"],
        "a b.npz": ["a b.npz"],
        "steane": [],
    }.items():
        spec["code"] = {"type": "parity_check_matrix", "source": source}
        level = {"level": "code_capacity", "p": [0.01], "reference_p": 0.01}
        spec |= {"noise": {**spec["noise"], **level}, "classical_backend": "osd"}
        env = Environment(EnvSpec.model_validate(spec), root=tmp_path)
        assert env.files == [tmp_path / name for name in names]
        copy = tmp_path / f"copy {len(list(tmp_path.iterdir()))}"
        for path in env.files:
            target = copy / path.relative_to(tmp_path)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
        assert Environment(env.spec, root=copy).content_hash == env.content_hash
    spec["code"] = {"type": "stim_circuit", "source": "circuit.stim"}
    assert referenced(EnvSpec.model_validate(spec)) == ["circuit.stim"]


def _env(folder: Path, source: str, **parts) -> Environment:
    spec = {
        "name": "given",
        "code": {"type": "parity_check_matrix", "source": source, **parts.get("code", {})},
        "noise": {"type": "depolarizing", "p": [parts.get("p", 0.003)]},
        "constraints": {},
        "baseline_decoders": [],
        "classical_backend": "osd",
        "eval_protocol": parts.get("eval_protocol", {}),
    }
    return Environment(EnvSpec.model_validate(spec), root=folder)


@pytest.mark.parametrize("name", ["bb72", "bb90", "bb108"])
@pytest.mark.parametrize("mirrored", [False, True])
def test_a_bivariate_bicycle_code_in_a_file_has_its_published_schedule(tmp_path, name, mirrored) -> None:
    code = build_code(name)
    hx, hz = code.hx, code.hz
    if mirrored:  # shifts of the other direction: A and B are transposed
        half = code.mx
        hx, hz = (np.concatenate([h[:, :half].T, h[:, half:].T], axis=1) for h in (hx, hz))
    np.savez(tmp_path / "code.npz", Hx=hx, Hz=hz)
    found = _env(tmp_path, "code.npz", code={"rounds": 2})
    assert found.source.facts["schedule"] == "published"
    if not mirrored:
        given, builtin = (
            found.built_problem(0.003),
            _env(tmp_path, name, code={"rounds": 2}).built_problem(0.003),
        )
        assert (given.h != builtin.h).nnz == (given.l != builtin.l).nnz == 0
        assert np.array_equal(given.priors, builtin.priors)


def test_what_is_no_bivariate_bicycle_code_is_coloured(tmp_path) -> None:
    code = build_code("bb72")
    rows = np.roll(np.arange(code.mx), 1)
    np.savez(tmp_path / "code.npz", Hx=code.hx[rows], Hz=code.hz)
    assert _env(tmp_path, "code.npz", code={"rounds": 2}).source.facts["schedule"] == "colouring"


@pytest.mark.parametrize(
    "name", ["bb72", "rotated_surface?distance=3", "rotated_surface?distance=5", "steane"]
)
def test_one_half_of_a_css_code_is_told_what_to_give(tmp_path, name) -> None:
    code = build_code(name)
    np.save(tmp_path / "half.npy", code.hz)
    (warning,) = _env(tmp_path, "half.npy").warnings
    assert "one half of a CSS code" in warning
    np.savez(tmp_path / "both.npz", Hx=code.hx, Hz=code.hz)
    assert _env(tmp_path, "both.npz", eval_protocol={"x_z_decoding": "x_only"}).warnings == ()


def test_classical_codes_are_not_warned_of(tmp_path) -> None:
    for index, name in enumerate(("repetition?distance=5", "ring?distance=7")):
        np.save(tmp_path / f"{index}.npy", build_code(name).h)
        assert _env(tmp_path, f"{index}.npy").warnings == ()
    given = classical_code("hamming", STEANE.hz)
    np.savez(tmp_path / "hamming.npz", H=given.h, L=given.l)
    assert _env(tmp_path, "hamming.npz").warnings == ()


def test_detectors_that_are_not_decoded_are_named(tmp_path) -> None:
    spec = load_env("bb72_depol").spec.model_dump(mode="json")
    assert load_env(spec).dropped_detectors is None
    spec["eval_protocol"]["osd_bases"] = "observable"
    bb72 = load_env(spec)
    total = bb72.source.noiseless().num_detectors
    dropped = total - bb72.built_problem(0.001).n_checks
    assert dropped > 0
    assert bb72.dropped_detectors.startswith(f"{dropped} of {total}, basis X (osd decodes the basis")
    assert load_env("surface_d3_depol").dropped_detectors is None
    one_sided = _env(tmp_path, "bb72", eval_protocol={"x_z_decoding": "x_only"})
    assert one_sided.dropped_detectors.startswith("all of the 36 X checks (x_z_decoding: x_only")
