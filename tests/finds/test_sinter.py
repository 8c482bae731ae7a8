"""Finds in the real sinter program, in several worker processes."""

import csv
import io
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from finds.conftest import Maker

import autoqec
from autoqec.errors import InputError

SINTER = [str(Path(sys.executable).with_name("sinter"))]


def collect(folder: Path, finds: str, *decoders: str) -> subprocess.CompletedProcess:
    command = [
        "collect",
        "--circuits",
        str(folder / "c.stim"),
        "--processes",
        "2",
        "--max_shots",
        "4000",
        "--quiet",
    ]
    command += ["--custom_decoders_module_function", "autoqec:sinter_decoders", "--decoders", *decoders]
    command += ["--save_resume_filepath", str(folder / "out.csv")]
    variables = {**os.environ, "AUTOQEC_PREDECODERS": finds}
    return subprocess.run([*SINTER, *command], env=variables, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_collect_runs_finds_by_name_and_by_folder(find: Maker, tmp_path: Path) -> None:
    autoqec.load_env("surface_d3_depol").circuit(0.01).to_file(tmp_path / "c.stim")
    finds = os.pathsep.join([f"mine={find('weights')}", str(find("custom"))])
    names = ("autoqec_mine", f"autoqec_{find('custom').name}", "autoqec_pymatching")
    done = collect(tmp_path, finds, *names)
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader(io.StringIO((tmp_path / "out.csv").read_text()), skipinitialspace=True))
    shots = {name: sum(int(row["shots"]) for row in rows if row["decoder"] == name) for name in names}
    assert shots == dict.fromkeys(names, 4000)


@pytest.mark.slow
def test_a_find_of_another_circuit_ends_sinter_with_our_words(find: Maker, tmp_path: Path) -> None:
    autoqec.load_env("surface_d5_depol").circuit(0.005).to_file(tmp_path / "c.stim")
    done = collect(tmp_path, f"mine={find('weights')}", "autoqec_mine")
    assert done.returncode != 0
    assert "another problem" in done.stderr
    assert "TypeError" not in done.stderr


def test_discarding_forms_have_names_of_their_own(find: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sinter adds up what has the same name, so a threshold is part of it."""
    monkeypatch.setenv("AUTOQEC_DISCARD_BELOW", "2.50")
    found = autoqec.sinter_decoders([f"mine={find('weights')}"])
    assert {"autoqec_mine", "autoqec_mine_above_2.5", "autoqec_pymatching_above_2.5"} <= set(found)
    circuit = autoqec.load_env("surface_d3_depol").circuit(0.01)
    dem = circuit.detector_error_model(decompose_errors=True)
    shots = circuit.compile_detector_sampler(seed=5).sample(500, bit_packed=True)
    kept, discarding = (
        found[name]
        .compile_decoder_for_dem(dem=dem)
        .decode_shots_bit_packed(bit_packed_detection_event_data=shots)
        for name in ("autoqec_mine", "autoqec_mine_above_2.5")
    )
    assert np.array_equal(discarding[:, :-1], kept)
    assert 0 < discarding[:, -1].sum() < 250
    monkeypatch.setenv("AUTOQEC_DISCARD_BELOW", "sure")
    with pytest.raises(InputError, match="'sure' is not a number"):
        autoqec.sinter_decoders([])


def test_two_of_one_name_and_missing_folders_are_refused(find: Maker, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="two decoders"):
        autoqec.sinter_decoders([f"a={find('weights')}", f"a={find('flips')}"])
    with pytest.raises(InputError, match="not a folder"):
        autoqec.sinter_decoders([tmp_path / "none"])
    assert {"autoqec_pymatching", "autoqec_a"} <= autoqec.sinter_decoders([f"a={find('weights')}"]).keys()
