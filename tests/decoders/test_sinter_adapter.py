"""Every baseline inside the real sinter, and recorded shots through the real stim command."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import sinter
import stim

from autoqec.decoders.baselines.registry import choose, entry, names, unavailable
from autoqec.decoders.protocol import decode_with_confidence
from autoqec.decoders.sinter_adapter import SinterDecoder, decoder_for_dem, decoders
from autoqec.envs.packing import pack
from autoqec.errors import UnavailableError

OFFERED = [c for c in choose(names(), (0, 10), where="test") if not entry(c.entry).needs_context]
AVAILABLE = [c for c in OFFERED if unavailable(c) is None and entry(c.entry).refuses is None]
IDS = [choice.name for choice in AVAILABLE]


def circuit(distance: int = 3, p: float = 0.01) -> stim.Circuit:
    return stim.Circuit.generated(
        "surface_code:rotated_memory_z",
        distance=distance,
        rounds=distance,
        after_clifford_depolarization=p,
        before_round_data_depolarization=p,
        before_measure_flip_probability=p,
        after_reset_flip_probability=p,
    )


def test_every_entry_is_offered_installed_or_not() -> None:
    offered = decoders()
    assert set(offered) == {"autoqec_" + choice.name for choice in OFFERED}
    assert {"autoqec_bposd-0", "autoqec_bposd-10", "autoqec_relay_bp"} <= set(offered)
    for name, decoder in offered.items():
        if unavailable(decoder.factory) is not None:
            with pytest.raises(UnavailableError, match="pip install"):
                decoder.compile_decoder_for_dem(dem=circuit().detector_error_model(decompose_errors=True))
        assert name.startswith("autoqec_")


@pytest.mark.parametrize("choice", AVAILABLE, ids=IDS)
class TestConformance:
    """What sinter asks of a decoder, for every entry."""

    def compiled(self, choice, dem):
        return SinterDecoder(choice).compile_decoder_for_dem(dem=dem)

    def test_no_shots(self, choice) -> None:
        dem = circuit().detector_error_model(decompose_errors=True)
        out = self.compiled(choice, dem).decode_shots_bit_packed(
            bit_packed_detection_event_data=np.zeros((0, 3), dtype=np.uint8)
        )
        assert out.shape == (0, 1)

    @pytest.mark.parametrize(
        "text", ["", "error(0.1) L0", "error(0.1) D0", "detector D0\nlogical_observable L8"]
    )
    def test_nothing_to_decode(self, choice, text) -> None:
        dem = stim.DetectorErrorModel(text)
        shots = np.zeros((5, (dem.num_detectors + 7) // 8), dtype=np.uint8)
        out = self.compiled(choice, dem).decode_shots_bit_packed(bit_packed_detection_event_data=shots)
        assert out.shape == (5, (dem.num_observables + 7) // 8)
        assert not out.any()

    @pytest.mark.parametrize("n", [7, 8, 9, 16, 17])
    def test_widths_around_a_byte(self, choice, n) -> None:
        """A repetition code of n checks: single flips are decoded right whatever the padding."""
        lines = [f"error(0.05) D{i} D{i + 1}" for i in range(n - 1)] + [
            "error(0.05) D0 L0",
            f"error(0.05) D{n - 1}",
        ]
        dem = stim.DetectorErrorModel("\n".join(lines))
        detectors = np.zeros((n + 1, n), dtype=bool)
        expected = np.zeros((n + 1, 1), dtype=bool)
        for i in range(n - 1):
            detectors[i, [i, i + 1]] = True
        detectors[n - 1, 0] = expected[n - 1, 0] = True
        detectors[n, n - 1] = True
        out = self.compiled(choice, dem).decode_shots_bit_packed(
            bit_packed_detection_event_data=pack(detectors)
        )
        assert (out == pack(expected)).all()

    def test_nine_observables(self, choice) -> None:
        dem = stim.DetectorErrorModel("\n".join(f"error(0.1) D{i} L{i}" for i in range(9)))
        detectors = pack(np.eye(9, dtype=bool))
        out = self.compiled(choice, dem).decode_shots_bit_packed(bit_packed_detection_event_data=detectors)
        assert (out == detectors).all()

    def test_better_than_no_correction(self, choice) -> None:
        noisy = circuit()
        dem = noisy.detector_error_model(decompose_errors=True)
        detectors, actual = noisy.compile_detector_sampler(seed=5).sample(
            1500, separate_observables=True, bit_packed=True
        )
        out = self.compiled(choice, dem).decode_shots_bit_packed(bit_packed_detection_event_data=detectors)
        assert (out != actual).any(axis=1).mean() < 0.5 * (actual != 0).any(axis=1).mean()

    def test_repeat_blocks_and_shifts(self, choice) -> None:
        folded = stim.DetectorErrorModel(
            "error(0.1) D0 L0\nrepeat 5 {\n error(0.1) D0 D1\n shift_detectors 1\n}\nerror(0.1) D0"
        )
        shots = pack(np.array([[1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 1], [0, 1, 1, 0, 0, 0]], dtype=bool))
        out = self.compiled(choice, folded).decode_shots_bit_packed(bit_packed_detection_event_data=shots)
        assert out.tolist() == [[1], [0], [0]]


@pytest.mark.slow
def test_real_sinter_collects(tmp_path: Path) -> None:
    circuit().to_file(tmp_path / "d=3,p=0.01.stim")
    ours = [f"autoqec_{choice.name}" for choice in AVAILABLE if choice.name not in ("bposd-10",)]
    done = subprocess.run(
        [
            str(Path(sys.executable).with_name("sinter")),
            "collect",
            "--circuits",
            str(tmp_path / "d=3,p=0.01.stim"),
        ]
        + ["--decoders", "pymatching", *ours]
        + ["--custom_decoders_module_function", "autoqec.decoders.sinter_adapter:decoders"]
        + [
            "--max_shots",
            "2000",
            "--max_errors",
            "100000",
            "--processes",
            "2",
            "--save_resume_filepath",
            str(tmp_path / "stats.csv"),
        ]
        + ["--metadata_func", "auto"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ,
    )
    assert done.returncode == 0, done.stderr
    stats = {s.decoder: s for s in sinter.stats_from_csv_files(tmp_path / "stats.csv")}
    assert set(stats) == {"pymatching", *ours}
    assert all(s.shots == 2000 and 0 < s.errors < 300 for s in stats.values())


def test_own_csv_is_read_by_sinter(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    arguments = [
        "baseline",
        "surface_d3_depol",
        "--p",
        "0.01",
        "--shots",
        "3000",
        "--decoders",
        "pymatching_correlated",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "autoqec", *arguments, "--workers", "1", "--csv", str(path), "--json"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ,
    )
    assert done.returncode == 0, done.stderr
    rows = {row["decoder"]: row for row in json.loads(done.stdout)["rows"]}
    read = {s.decoder: s for s in sinter.stats_from_csv_files(path)}
    assert set(read) == set(rows) == {"pymatching", "pymatching_correlated"}
    for name, stats in read.items():
        assert (stats.shots, stats.errors) == (rows[name]["shots"], rows[name]["failures"])
        assert stats.json_metadata["p"] == 0.01
        assert stats.json_metadata["decoder_identity"].startswith(f"{name}/pymatching-")
    with path.open() as file:
        assert len({row["strong_id"] for row in csv.DictReader(file)}) == 2


def test_discards_are_the_least_sure_shots_in_the_real_sinter() -> None:
    task = sinter.Task(circuit=circuit(p=0.02))
    below = 2.0
    offered = {
        "all": SinterDecoder(choose(["pymatching"], (), where="test")[0]),
        "sure": SinterDecoder(choose(["pymatching"], (), where="test")[0], discard_below=below),
    }
    found = {
        one.decoder: one
        for one in sinter.collect(
            num_workers=1, tasks=[task], decoders=list(offered), custom_decoders=offered, max_shots=4000
        )
    }
    assert found["all"].discards == 0
    assert 0 < found["sure"].discards < 2000
    kept = found["sure"].shots - found["sure"].discards
    assert found["sure"].errors / kept < 0.7 * found["all"].errors / found["all"].shots


@pytest.mark.parametrize("name", ["pymatching", "belief_matching", "bposd-0", "bposd-10"])
def test_every_decoder_with_a_confidence_predicts_the_same_with_it(name) -> None:
    (choice,) = choose([name], (0,), where="test")
    dem = circuit(p=0.01).detector_error_model(decompose_errors=True)
    decoder = decoder_for_dem(choice, dem)
    shots, observables = (
        circuit(p=0.01)
        .compile_detector_sampler(seed=4)
        .sample(2000, separate_observables=True, bit_packed=True)
    )
    found = decode_with_confidence(decoder, shots, name=name)
    assert np.array_equal(found.predictions, decoder.decode(shots))
    failed = (found.predictions != observables).any(axis=1)
    order = np.argsort(found.log_odds)
    assert failed[order[:200]].mean() > 4 * failed[order[200:]].mean()


def test_a_decoder_without_a_confidence_says_so() -> None:
    (choice,) = choose(["pymatching_correlated"], (), where="test")
    compiled = SinterDecoder(choice, discard_below=1.0).compile_decoder_for_dem(
        dem=circuit().detector_error_model(decompose_errors=True)
    )
    with pytest.raises(UnavailableError, match="pymatching_correlated does not say how sure it is"):
        compiled.decode_shots_bit_packed(bit_packed_detection_event_data=np.zeros((1, 3), dtype=np.uint8))


def test_without_detectors_the_faults_themselves_say_how_sure_it_is() -> None:
    (choice,) = choose(["pymatching"], (), where="test")
    decoder = decoder_for_dem(choice, stim.DetectorErrorModel("error(0.1) L0\nerror(0.2) L0 L1"))
    found = decode_with_confidence(decoder, np.zeros((2, 0), dtype=np.uint8), name="pymatching")
    assert found.log_odds == pytest.approx(np.log(4.0))
