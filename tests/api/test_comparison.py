"""`autoqec.compare`: the figures are those of independent decodings of the same shots."""

import shutil
from pathlib import Path

import numpy as np
import pymatching
import pytest
from finds.conftest import Maker

import autoqec
from autoqec.decoders.baseline_tables import plot_ler
from autoqec.envs.seeds import derive_seed
from autoqec.errors import InputError

pytest_plugins = ["finds.conftest"]
P, SHOTS = 0.01, 2_000


@pytest.fixture(scope="module")
def env() -> autoqec.Environment:
    return autoqec.load_env("surface_d3_depol")


@pytest.fixture(scope="module")
def found(env: autoqec.Environment, find: Maker) -> autoqec.Comparison:
    decoders = [
        "pymatching_correlated",
        find("weights"),
        autoqec.load_predecoder(find("flips"), name="flips"),
    ]
    return autoqec.compare(env, decoders, p=P, shots=SHOTS, workers=1)


def test_all_decoders_see_the_same_shots(
    found: autoqec.Comparison, env: autoqec.Environment, find: Maker
) -> None:
    names = [row["decoder"] for row in found.rows]
    assert names == ["pymatching", "pymatching_correlated", find("weights").name, "flips"]
    # The same shots again, decoded by PyMatching itself and by the find.
    shots = env.sampler(P).sample(8192, derive_seed("baseline", env.stream(P), 0))
    detectors, observables = shots.detectors[:SHOTS], shots.observables[:SHOTS]
    matching = pymatching.Matching.from_detector_error_model(
        env.circuit(P).detector_error_model(decompose_errors=True)
    )
    plain = matching.decode_batch(detectors, bit_packed_shots=True, bit_packed_predictions=True)
    ours = autoqec.load_predecoder(find("weights"), p=P).decode(
        detectors, bit_packed_shots=True, bit_packed_predictions=True
    )
    wanted = [int((each != observables).any(axis=1).sum()) for each in (plain, ours)]
    assert [found.rows[0]["failures"], found.rows[2]["failures"]] == wanted
    only = int(((plain != observables).any(axis=1) & ~(ours != observables).any(axis=1)).sum())
    assert found.rows[2]["only_plain_failed"] == only


def test_a_find_against_a_decoder_of_the_callers_choice(
    found: autoqec.Comparison, env: autoqec.Environment, find: Maker
) -> None:
    against = autoqec.compare(
        env, [find("weights")], p=P, shots=SHOTS, against="pymatching_correlated", workers=1
    )
    assert against.against == "pymatching_correlated"
    row = next(row for row in against.rows if row["decoder"] == find("weights").name)
    other, ours = (
        found.results[0].failures["pymatching_correlated"],
        found.results[0].failures[row["decoder"]],
    )
    assert row["against_only_other_failed"] == np.bitwise_count(other & ~ours).sum()
    assert row["against_only_this_failed"] == np.bitwise_count(ours & ~other).sum()
    assert row["against_ratio_low"] < row["against_ratio"] < row["against_ratio_high"]
    assert "ratio to pymatching_correlated" in str(against)


def test_rounds_of_the_same_name_are_called_by_their_folders(
    env: autoqec.Environment, find: Maker, tmp_path: Path
) -> None:
    for run, config in (("a", "weights"), ("b", "flips")):
        shutil.copytree(find(config), tmp_path / run / "round_3")
    one, other = (tmp_path / run / "round_3" for run in ("a", "b"))
    apart = autoqec.compare(
        env, [one, "pymatching"], p=P, shots=100, against=other / "checkpoint.pt", workers=1
    )
    assert [row["decoder"] for row in apart.rows] == ["pymatching", "a/round_3", "b/round_3"]
    assert apart.against == "b/round_3"
    alone = autoqec.compare(env, [one, str(one)], p=P, shots=100, workers=1)
    assert [row["decoder"] for row in alone.rows] == ["pymatching", "round_3"]
    one.rename(tmp_path / "a" / "pymatching")
    beside = autoqec.compare(env, [tmp_path / "a" / "pymatching"], p=P, shots=100, workers=1)
    assert [row["decoder"] for row in beside.rows] == ["pymatching", "a/pymatching"]


def test_tables_and_figures(found: autoqec.Comparison, tmp_path: Path) -> None:
    table = found.to_pandas()
    assert len(table) == 4
    assert np.allclose(table["ler"], table["failures"] / table["shots"])
    assert str(found).count("\n") == 4
    assert found.to_csv().startswith("shots,errors")
    found.plot(tmp_path / "ler.png")
    assert (tmp_path / "ler.png").stat().st_size > 1000
    assert found.plot().axes


def test_what_cannot_be_compared_is_refused(env: autoqec.Environment, find: Maker) -> None:
    with pytest.raises(InputError, match="unknown decoder"):
        autoqec.compare(env, ["magic"], p=P)
    for wrong in ({"decoders": [5]}, {"against": ["belief_matching"]}):
        with pytest.raises(InputError, match=r"^(decoders: 5|against: .'belief_matching'.) is no decoder"):
            autoqec.compare(env, p=P, shots=10, **wrong)
    with pytest.raises(InputError, match="two decoders"):
        autoqec.compare(
            env, [autoqec.load_predecoder(find(c), name="a") for c in ("weights", "flips")], p=P, shots=10
        )
    with pytest.raises(InputError, match="not a physical error rate"):
        autoqec.compare(env, p=0.7)


def test_shots_of_an_environment(env: autoqec.Environment) -> None:
    shots = env.sample(P, 50, seed=4)
    assert shots.detectors.shape == (50, env.problem(P).n_checks)
    assert set(np.unique(shots.detectors)) <= {0, 1}
    packed = env.sample(P, 50, seed=4, bit_packed=True)
    assert np.array_equal(np.packbits(shots.detectors, axis=1, bitorder="little"), packed.detectors)
    with pytest.raises(InputError):
        env.sample(P, -1)


def test_matching_with_weights_per_shot_is_pymatching_on_its_own_weights(env: autoqec.Environment) -> None:
    dem = env.circuit(P).detector_error_model(decompose_errors=True)
    matching = autoqec.PerShotMatching(dem)
    shots = env.sample(P, 500, seed=5).detectors
    weights = np.random.default_rng(0).uniform(0.5, 5.0, size=(500, matching.n_edges))
    ours = matching.decode_to_edges(shots, weights)
    for shot, row, total in zip(shots[:50], weights, ours.weights, strict=False):
        one = pymatching.Matching()
        for (a, b), weight in zip(matching.edges, row, strict=True):
            one.add_edge(int(a), int(b), weight=weight) if b >= 0 else one.add_boundary_edge(
                int(a), weight=weight
            )
        assert one.decode(shot, return_weight=True)[1] == pytest.approx(total, abs=1e-3)
    for wrong in (shots[:, 1:], shots.astype(float), 2 * shots, -shots.astype(np.int64)):
        with pytest.raises(InputError, match="shots"):
            matching.decode(wrong)
    packed = np.packbits(shots, axis=1, bitorder="little")
    assert np.array_equal(
        matching.decode(packed, bit_packed_shots=True), matching.decode(shots.astype(np.int64))
    )
    with pytest.raises(InputError, match="PerShotMatching"):
        autoqec.PerShotMatching("model.dem")  # type: ignore[arg-type]


def test_distances_have_lambda_beside_their_rates() -> None:
    found = [
        autoqec.compare(f"surface_d{d}_depol", [], p=[0.005, 0.01], shots=2_000, workers=1) for d in (3, 5)
    ]
    figure = plot_ler("distances", [each.measured for each in found])
    rates, ratios = figure.axes
    assert len(rates.get_legend().get_texts()) == 2
    assert [text.get_text() for text in ratios.get_legend().get_texts()] == ["pymatching, 3 to 5"]
    assert len(found[0].plot().axes) == 1
