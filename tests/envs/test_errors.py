"""Bad environments: one clear InputError each, with the place and a hint."""

from pathlib import Path

import pytest
import stim
import yaml
from warm_processes import autoqec_text

from autoqec.envs.load import builtin_folder, load_env
from autoqec.errors import InputError

BASE = yaml.safe_load((builtin_folder() / "surface_d3_depol.yaml").read_text())
BASE["noise"]["p"] = [0.005]
NOISY = str(
    stim.Circuit.generated(
        "repetition_code:memory", distance=3, rounds=2, before_measure_flip_probability=0.01
    )
)
FILES = {
    "noisy.stim": NOISY,
    "plain.stim": str(stim.Circuit.generated("repetition_code:memory", distance=3, rounds=2)),
    "bare.stim": "R 0\nM 0\n",
    "broken.stim": "FLY 0\n",
    "random.stim": "H 0\nTICK\nM 0\nDETECTOR rec[-1]\nOBSERVABLE_INCLUDE(0) rec[-1]\n",
    "fixed.stim": "R 0 1 2\nTICK\nM 0 2\nDETECTOR rec[-2]\nOBSERVABLE_INCLUDE(0) rec[-1]\nOBSERVABLE_INCLUDE(1)\n",
    "empty.dem": "",
    "broken.dem": "error(2) D0\n",
    "blind.dem": "error(0.1) D0\n",
    "hyper.dem": "error(0.1) D0 D1 D2 L0\n",
    "loop.dem": "repeat 3 {\n    error(0.1) D0 D1 L0\n    shift_detectors 1\n}\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def write(folder: Path, **changes: object) -> Path:
    data = {
        key: {**BASE[key], **value} if isinstance(value, dict) else value for key, value in changes.items()
    }
    path = folder / "env.yaml"
    path.write_text(yaml.safe_dump({**BASE, **data}))
    return path


CASES = {
    "unknown generator": (
        {"code": {"source": "surface_code:square?distance=3"}},
        "Stim generates",
        "rotated_memory_z",
    ),
    "missing rounds": ({"code": {"source": "surface_code:rotated_memory_z?distance=3"}}, "rounds", "rounds="),
    "odd parameter": (
        {"code": {"source": "repetition_code:memory?distance=3&rounds=3&q=1"}},
        "'q'",
        "distance",
    ),
    "distance zero": (
        {"code": {"source": "repetition_code:memory?distance=0&rounds=3"}},
        "distance",
        "integer",
    ),
    "missing file": ({"code": {"source": "nowhere.stim"}}, "does not exist", ".stim"),
    "broken circuit": ({"code": {"source": "broken.stim"}}, "not a Stim circuit", "stim"),
    "no detectors": ({"code": {"source": "bare.stim"}}, "0 detectors", "DETECTOR"),
    "random detector": ({"code": {"source": "random.stim"}}, "no detector error model", "deterministic"),
    "dead observable": (
        {"code": {"source": "fixed.stim"}},
        "observable L1 cannot be flipped",
        "OBSERVABLE_INCLUDE",
    ),
    "sweep on noisy circuit": (
        {"code": {"source": "noisy.stim"}, "noise": {"p": [0.1, 0.2]}},
        "carries its own noise",
        "one p",
    ),
    "bias on noisy circuit": (
        {"code": {"source": "noisy.stim"}, "noise": {"type": "biased"}},
        "carries its own noise",
        "strip",
    ),
    "rounds on a circuit": ({"code": {"rounds": 3}}, "rounds", "remove"),
    "level on a circuit": ({"noise": {"level": "code_capacity"}}, "code_capacity", "parity_check_matrix"),
    "colour code matching": (
        {"code": {"source": "color_code:memory_xyz?distance=5&rounds=5"}},
        "not graph-like",
        "classical_backend: osd",
    ),
    "custom_dem without dem": (
        {"noise": {"type": "custom_dem"}},
        "needs a detector error model",
        "noise.dem",
    ),
    "empty dem": (
        {"noise": {"type": "custom_dem", "dem": "empty.dem"}},
        "has no errors",
        "nothing to decode",
    ),
    "broken dem": (
        {"noise": {"type": "custom_dem", "dem": "broken.dem"}},
        "not a detector error model",
        "noise.dem",
    ),
    "blind dem": (
        {"code": {"source": "blind.dem"}, "noise": {"type": "custom_dem"}},
        "no logical observables",
        "nothing to decode",
    ),
    "hyperedge dem": (
        {"code": {"source": "hyper.dem"}, "noise": {"type": "custom_dem"}},
        "3 detectors D0 D1 D2",
        "osd",
    ),
    "sweep on dem": (
        {"code": {"source": "loop.dem"}, "noise": {"type": "custom_dem", "p": [0.1, 0.2]}},
        "fixed probabilities",
        "one p",
    ),
    "dem of another code": (
        {"noise": {"type": "custom_dem", "dem": "loop.dem"}},
        "24 detectors",
        "of this code",
    ),
    "unknown family": ({"code": {"type": "parity_check_matrix", "source": "steene"}}, "steene", "steane"),
    "leakage without gates": (
        {
            "code": {"type": "parity_check_matrix", "source": "steane"},
            "noise": {"type": "leakage", "level": "phenomenological"},
        },
        "two-qubit gates",
        "circuit",
    ),
    "rounds in code capacity": (
        {
            "code": {"type": "parity_check_matrix", "source": "steane", "rounds": 3},
            "noise": {"level": "code_capacity"},
        },
        "rounds = 3",
        "phenomenological",
    ),
    "circuit of a classical code": (
        {
            "code": {"type": "parity_check_matrix", "source": "repetition?distance=3"},
            "noise": {"level": "circuit"},
        },
        "both Hx and Hz",
        "phenomenological",
    ),
    "x memory, x errors": (
        {
            "code": {"type": "parity_check_matrix", "source": "steane", "memory_basis": "x"},
            "eval_protocol": {"x_z_decoding": "x_only"},
        },
        "X memory",
        "memory_basis: z",
    ),
    "x_only of an x memory circuit": (
        {
            "code": {"source": "surface_code:rotated_memory_x?distance=3&rounds=2"},
            "eval_protocol": {"x_z_decoding": "x_only"},
        },
        "x_only",
        "Z memory",
    ),
    "si1000 too strong": ({"noise": {"variant": "si1000", "p": [0.3]}}, "readout flip", "p <= 0.1"),
    "si1000 without a circuit": (
        {
            "code": {"type": "parity_check_matrix", "source": "steane"},
            "noise": {"variant": "si1000", "level": "code_capacity"},
        },
        "circuit-level",
        "uniform",
    ),
    "graph that is none": ({"code": {"type": "tanner_graph", "source": "plain.stim"}}, "plain.stim", ".json"),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_environment(folder: Path, case: str) -> None:
    changes, what, hint = CASES[case]
    env = load_env(write(folder, **changes))
    with pytest.raises(InputError) as caught:
        env.problem(env.spec.noise.p[0])
    assert what in str(caught.value)
    assert hint in str(caught.value)
    assert "Traceback" not in str(caught.value)


def test_noisy_circuit_is_used_as_it_is(folder: Path) -> None:
    env = load_env(write(folder, code={"source": "noisy.stim"}))
    assert env.circuit(0.005) == stim.Circuit(NOISY)
    assert env.problem(0.005).n_faults > 0


def test_loops_and_shifts_of_a_dem_are_unrolled(folder: Path) -> None:
    env = load_env(write(folder, code={"source": "loop.dem"}, noise={"type": "custom_dem"}))
    problem = env.problem(0.005)
    assert (problem.n_checks, problem.n_faults) == (4, 3)


def test_cli_prints_one_error_and_exits_2(folder: Path) -> None:
    path = write(folder, code={"source": "nowhere.stim"})
    done = autoqec_text("env", "validate", str(path))
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: code.source: ")
    assert "Traceback" not in done.stderr


def test_unknown_name_lists_the_builtin_ones() -> None:
    with pytest.raises(InputError, match="surface_d5_depol"):
        load_env("surface_d5")
