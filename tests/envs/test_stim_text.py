"""Text that means harm to whoever gives it to Stim as it is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import stim

from autoqec.envs.load import load_env
from autoqec.envs.stim_text import read_circuit, read_model, text_of
from autoqec.errors import InputError

FOR_EVER_S = 300.0


@pytest.mark.parametrize("reader", ["read_circuit", "read_model"])
@pytest.mark.parametrize("text", ["H[", "error[tag"])
def test_a_tag_that_the_text_ends_in_is_not_waited_for(tmp_path: Path, reader: str, text: str) -> None:
    (tmp_path / "text").write_text(text)
    script = (
        f"from pathlib import Path; from autoqec.envs.stim_text import {reader}; "
        f"{reader}(Path({str(tmp_path / 'text')!r}), where='w', hint='h')"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=FOR_EVER_S, check=False
    )
    assert "InputError" in done.stderr


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("error(0.1) D10000000000 L0", "10000000001 detectors"),
        ("error(0.1) D0 L4294967295", "4294967296 observables"),
        ("repeat 4294967296 {\nrepeat 4294967296 {\nerror(0.1) D0 L0\n}\n}", f"{2**64} errors"),
        (
            "repeat 100 {\nshift_detectors 1000000000000000000\n}\nerror(0.1) D0 L0",
            f"{10**20 + 1} detectors",
        ),
        ("error(2) D0", "probability"),
        ("nothing", "Unrecognized"),
    ],
)
def test_models_beyond_any_machine(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "m.dem").write_text(text)
    with pytest.raises(InputError, match=problem):
        read_model(tmp_path / "m.dem", where="noise.dem", hint="give a model")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("REPEAT 1000000000000 {\nH 0\n}\n", "1000000000000 instructions"),
        ("M 0\nOBSERVABLE_INCLUDE(10000000000) rec[-1]\n", "10000000001 observables"),
        ("R 10000000000\n", "too large"),
    ],
)
def test_circuits_beyond_any_machine(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "c.stim").write_text(text)
    with pytest.raises(InputError, match=problem):
        read_circuit(tmp_path / "c.stim", where="code.source", hint="give a circuit")


def test_repeats_and_shifts_of_an_honest_model_are_unrolled(tmp_path: Path) -> None:
    (tmp_path / "m.dem").write_text("repeat 3 {\nerror(0.1) D0 D1 L0\nshift_detectors 1\n}\nerror(0.2) D0")
    model = read_model(tmp_path / "m.dem", where="noise.dem", hint="give a model")
    assert (model.num_errors, model.num_detectors) == (4, 4)


def test_a_model_reads_the_same_on_every_machine() -> None:
    model = stim.DetectorErrorModel("""
        error[a(1, 2.50)](0.123456789012345678) D0 ^ D1 L0
        repeat 3 {
            error(0.01) D0
            shift_detectors(0, -0.5) 1
        }
        detector(1e-12) D2
        detector D3
    """)
    lines = [line.strip() for line in text_of(model).splitlines()]
    assert lines == [
        "error[a(1, 2.50)](0.1234567890123456774) D0 ^ D1 L0",
        "repeat 3 {",
        "error(0.01000000000000000021) D0",
        "shift_detectors(0, -0.5) 1",
        "}",
        "detector(9.999999999999999799e-13) D2",
        "detector D3",
    ]
    assert stim.DetectorErrorModel(text_of(model)) == model


def test_the_builtin_error_model_has_the_hash_that_it_has_elsewhere() -> None:
    hashed = "6da12b367d0fe567987814892e9598e375dc009ed85af3a07f31ba0ae321c889"
    assert load_env("steane_custom_dem").content_hash == hashed
