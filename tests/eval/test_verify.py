"""Verifications from end to end: real shots, real sandboxed workers, every verdict."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pymatching
import pytest
import torch

from autoqec.envs.environment import Environment
from autoqec.envs.packing import unpack
from autoqec.errors import InputError
from autoqec.eval.bundles import CHUNK, is_sealed, read_rows
from autoqec.eval.calibration import follows
from autoqec.eval.ledger import Ledger
from autoqec.eval.markdown import render
from autoqec.eval.report_store import written_report
from autoqec.eval.schema import VerifyReport
from autoqec.eval.verify import VerifyOptions, verify, verify_together
from autoqec.executors.local import LocalExecutor, LocalLanes
from autoqec.executors.protocol import Program
from autoqec.layout import VerifierDir
from autoqec.sandbox.kinds import strongest
from tests.decoders.both_halves import with_both_halves

pytestmark = pytest.mark.verifier

Maker = Callable[..., Path]
P = 0.01


def options(home: Path, **changes: object) -> VerifyOptions:
    return VerifyOptions(
        **{"shots": CHUNK, "cap": 2 * CHUNK, "home": home, "baseline_seconds": 5.0, "workers": 1, **changes}
    )  # type: ignore[arg-type]


class Overheard(LocalExecutor):
    """Notes what the workers are told and asked."""

    messages: ClassVar[list[bytes]] = []

    def lanes(self, program: Program, count: int) -> LocalLanes:
        noted = self.messages

        class Noting(LocalLanes):
            def tell(self, message: bytes) -> None:
                noted.append(message)
                super().tell(message)

            def send(self, message: bytes) -> int:
                noted.append(message)
                return super().send(message)

        return Noting(program, count)


def agree(one: float, one_ci: tuple[float, float], other: float, other_ci: tuple[float, float]) -> bool:
    """Whether two independent measurements are within five standard errors, read off their 95% intervals."""
    widths = [high - low for low, high in (one_ci, other_ci)]
    return abs(one - other) < 5 * math.hypot(*widths) / (2 * 1.96)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def honest(
    make_round: Maker, env: Environment, home: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, VerifyReport]:
    """Untrained belief propagation: it really wins, and it is the algorithm that does."""
    folder = make_round(tmp_path_factory.mktemp("honest") / "round_1")
    return folder, verify(folder, env, options(home, executor=Overheard()))


def test_an_honest_gain_is_verified(honest: tuple[Path, VerifyReport]) -> None:
    _, report = honest
    assert report.verdict == "VERIFIED", report.notes
    assert report.decision == "gain"
    assert [guard.name for guard in report.guards if guard.ok is False] == []
    assert report.delta_ler_holdout == pytest.approx(report.ler_baseline_holdout - report.ler_holdout)
    assert report.delta_vs_baseline_holdout == report.delta_ler_holdout
    assert report.delta_ler_ci_low < report.delta_ler_holdout < report.delta_ler_ci_high
    assert report.ler_holdout_ci[0] < report.ler_holdout < report.ler_holdout_ci[1]
    assert report.p_gain <= report.alpha == 0.025 / 20
    assert report.seed_leakage_check_ok
    assert report.sandbox_kind == strongest().name


def test_no_worker_is_told_the_secret(honest: tuple[Path, VerifyReport], home: Path) -> None:
    key = VerifierDir(home).secret.read_bytes()
    assert len(Overheard.messages) > 20
    assert not [message for message in Overheard.messages if key in message]


def test_the_algorithm_is_told_from_the_weights(honest: tuple[Path, VerifyReport]) -> None:
    _, report = honest
    assert report.ablation_sanity_ok
    assert report.ablation.attribution == "algorithm"
    assert report.ablation.ler_untrained == report.ablation.ler_real < report.ablation.ler_baseline
    assert report.ler_shuffled == report.ablation.ler_shuffled > report.ablation.ler_real
    assert "the algorithm wins" in report.notes


def test_every_error_rate_and_decoder_is_on_the_same_shots(honest: tuple[Path, VerifyReport]) -> None:
    _, report = honest
    assert [row.p for row in report.per_p] == [0.008, 0.01]
    assert {(row.p, row.name) for row in report.baselines} == {
        (0.008, "pymatching_correlated"),
        (0.01, "pymatching_correlated"),
    }
    for row in report.per_p:
        assert row.ler_baseline == pytest.approx((row.b + row.both) / row.shots)
        assert row.ler_candidate == pytest.approx((row.c + row.both) / row.shots)
    assert report.strongest_baseline == "pymatching_correlated"
    assert report.holdout_seeds_used == list(range(9000, 9000 + report.shots // CHUNK))


def test_confidence_is_measured_on_the_shots_of_the_estimate(honest: tuple[Path, VerifyReport]) -> None:
    _, report = honest
    by_p = {row.p: row for row in report.calibration}
    assert {p: row.source for p, row in by_p.items()} == {0.008: "test", P: "estimate"}
    head, found = by_p[P], report.estimate
    assert (head.shots, head.failures) == (found.shots, found.both + found.c)
    assert head.scale is not None
    assert 0.8 < head.mapped / head.failures < 1.25  # on a few hundred failures
    assert abs(head.mapped - head.failures) <= abs(head.expected - head.failures) + 20
    assert head.kept[-1].factor_ci[0] > 1.3  # about two
    assert "## Confidence" in render(report)
    other = by_p[0.008]
    assert other.failures == next(row.both + row.c for row in report.per_p if row.p == 0.008)
    assert all(follows(row, report.interval_level) for row in report.calibration)


def test_each_guard_has_a_number_or_says_why_not(honest: tuple[Path, VerifyReport]) -> None:
    _, report = honest
    names = [guard.name for guard in report.guards]
    assert len(names) == len(set(names)) == 15
    for guard in report.guards:
        assert guard.text
        assert guard.ok is None or guard.number is not None, guard.name
    applicable = {guard.name for guard in report.guards if guard.ok is not None}
    assert {"two_error_rates", "decoding_model", "more_rounds", "replay", "cost_census"} <= applicable


def test_the_archived_shots_reproduce_the_baseline(
    honest: tuple[Path, VerifyReport], env: Environment, home: Path
) -> None:
    """An independent decode of the archived bundle gives the reported failures."""
    _, report = honest
    folder = VerifierDir(home).bundles / report.paired_eval_bundle_id
    assert Path(report.bundle_path) == folder
    problem = env.problem(P)
    detectors = unpack(read_rows(folder / "p1.dets.b8", problem.n_checks, 0, report.shots), problem.n_checks)
    observables = read_rows(folder / "p1.obs.b8", 1, 0, report.shots)
    circuit = env.circuit(P)
    matching = pymatching.Matching.from_detector_error_model(
        circuit.detector_error_model(decompose_errors=True)
    )
    failures = int((matching.decode_batch(detectors) != observables).sum())
    assert failures / report.shots == pytest.approx(report.ler_baseline_holdout, abs=2 / report.shots)
    meta = json.loads((folder / "meta.json").read_text())
    assert meta["kind"] == "confirm"
    assert meta["checkpoints"] == [report.checkpoint_sha256]
    assert meta["streams"][0]["circuit"] in report.circuits.values()


def test_reports_are_written_and_logged(honest: tuple[Path, VerifyReport], home: Path) -> None:
    folder, report = honest
    assert VerifyReport.model_validate_json((folder / "verification_report.json").read_text()) == report
    text = (folder / "verification_report.md").read_text()
    assert text.startswith("# VERIFIED")
    assert report.paired_eval_bundle_id in text
    ledger = Ledger(VerifierDir(home))
    judged = ledger.rows()[-1]
    assert (judged["verdict"], judged["bundle"]) == ("VERIFIED", report.paired_eval_bundle_id)
    assert written_report(folder, home=home) == report
    events = [row["event"] for row in ledger.rows()]
    assert events.index("registered") < events.index("opened") < events.index("judged")


def test_the_effect_is_measured_on_shots_that_selected_nothing(
    honest: tuple[Path, VerifyReport], home: Path
) -> None:
    folder, report = honest
    found = report.estimate
    assert found.bundle != report.paired_eval_bundle_id
    assert found.shots == CHUNK
    assert found.delta == pytest.approx((found.b - found.c) / found.shots)
    selected = (report.delta_ler_ci_low, report.delta_ler_ci_high)
    assert agree(found.delta, found.delta_ci, report.delta_ler_holdout, selected)
    beside = {row.baseline: row for row in (*found.classical, found.untrained)}
    assert beside.keys() == {"pymatching_correlated", "untrained"}
    assert all(
        (row.shots, row.ler_candidate) == (found.shots, found.ler_candidate) for row in beside.values()
    )
    assert beside["untrained"].ler_baseline == found.ler_candidate  # nothing was learned here
    assert found.beats_classical == all(row.delta_ci[0] > 0 for row in (found, *found.classical))
    rows = Ledger(VerifierDir(home)).rows()
    assert rows[-1]["estimate"] == found.bundle
    assert is_sealed(VerifierDir(home).bundles, found.bundle)
    text = (folder / "verification_report.md").read_text()
    assert "Size of the effect" in text
    assert found.bundle in text


def test_a_second_verification_draws_no_second_estimate(
    make_round: Maker, env: Environment, tmp_path: Path
) -> None:
    """A choice between two figures is none: the same shots come again, whatever is asked for."""
    folder, home = make_round(tmp_path / "r"), tmp_path / "home"
    first = verify(folder, env, options(home, cap=CHUNK))
    second = verify(folder, env, options(home, cap=2 * CHUNK, shots=2 * CHUNK))
    assert (first.verdict, second.verdict) == ("VERIFIED", "VERIFIED")
    assert first.paired_eval_bundle_id != second.paired_eval_bundle_id
    timing = {
        "us_per_shot": True,
        "classical": {"__all__": {"us_per_shot"}},
        "untrained": {"us_per_shot"},
    }
    assert first.estimate.model_dump(exclude=timing) == second.estimate.model_dump(exclude=timing)
    with pytest.raises(InputError, match="drawn once"):
        verify(folder, env, options(home, kind="estimate", shots=3 * CHUNK))


def test_a_used_confirm_bundle_supports_no_new_claim(
    honest: tuple[Path, VerifyReport], env: Environment, home: Path
) -> None:
    folder, first = honest
    again = verify(folder, env, options(home, bundle=first.paired_eval_bundle_id, write=False))
    assert again.verdict == "SUSPICIOUS"
    assert "used before" in again.notes
    assert again.ler_holdout == first.ler_holdout
    assert again.paired_eval_bundle_id == first.paired_eval_bundle_id
    assert (again.shots_cap, again.confirmations_before) == (first.shots, None)
    assert "none is spent" in render(again)
    assert "confirmation 1 of 20" in render(first)
    assert (folder / "verification_report.md").read_text().startswith("# VERIFIED")


def test_retrying_uses_up_the_plan(honest: tuple[Path, VerifyReport], env: Environment, home: Path) -> None:
    """Were one confirmation planned, the first would have been it: no fresh shots can be kind enough after that."""
    folder, first = honest
    again = verify(folder, env, options(home, confirmations=1, write=False))
    assert (again.verdict, again.alpha, again.confirmations_before) == ("SUSPICIOUS", 0.0, 1)
    assert "no alpha is left" in again.notes
    assert again.paired_eval_bundle_id != first.paired_eval_bundle_id
    # Other shots of the same circuit.
    assert agree(again.ler_holdout, again.ler_holdout_ci, first.ler_holdout, first.ler_holdout_ci)


def test_dev_bundles_are_the_same_for_everyone_and_claim_nothing(
    make_round: Maker, env: Environment, tmp_path: Path
) -> None:
    def ruin(weights: dict[str, torch.Tensor]) -> None:
        weights["head.linear"].copy_(torch.tensor([0.1, -0.3, 0.0]))

    chosen = options(tmp_path / "home", kind="dev", cap=CHUNK)
    good = verify(make_round(tmp_path / "good"), env, chosen)
    bad = verify(make_round(tmp_path / "bad", change=ruin), env, chosen)
    assert good.paired_eval_bundle_id == bad.paired_eval_bundle_id
    assert good.ler_baseline_holdout == bad.ler_baseline_holdout
    assert (good.decision, good.verdict) == ("gain", "SUSPICIOUS")
    assert "dev bundle supports no claim" in good.notes
    assert (bad.decision, bad.verdict) == ("loss", "FAILED")
    assert bad.notes.startswith("loss")
    assert bad.delta_ler_ci_high < 0


def test_nothing_gained_is_inconclusive(
    make_round: Maker, env: Environment, home: Path, tmp_path: Path
) -> None:
    """A network starts at zero: untrained, it decodes as the plain backend does."""
    network = {"type": "gnn", "output_mode": "soft_priors", "gnn": {"layers": 1, "hidden_dim": 4}}
    report = verify(make_round(tmp_path / "plain", network), env, options(home, cap=CHUNK))
    assert report.verdict == "SUSPICIOUS"
    assert report.ablation.attribution == "none"
    assert abs(report.delta_ler_holdout) < 0.006  # equally cheap corrections fall either way
    assert report.notes.startswith(("INCONCLUSIVE:", "no significant"))


def test_claims_are_compared_and_never_believed(
    make_round: Maker, env: Environment, home: Path, tmp_path: Path
) -> None:
    """Forged metrics, holdout labels in training, a config that is not the checkpoint's: each is found, none is used."""
    forged = {"ler_plain_classical": 0.08, "ler_predecoder": 0.001, "n_params": 3, "flops_per_syndrome": 10}
    folder = make_round(tmp_path / "r", train_labels=(900, 9050), metrics=forged)
    (folder / "config.yaml").write_text(
        "type: neural_bp\noutput_mode: soft_priors\nneural_bp: {iterations: 9}\n"
    )
    (folder / "artifact_manifest.json").write_text(json.dumps({"artifacts": {"checkpoint.pt": "0" * 64}}))
    report = verify(folder, env, options(home, cap=CHUNK))
    assert report.verdict == "FAILED"
    assert report.decision == "gain"
    assert not report.seed_leakage_check_ok
    assert report.ler_holdout > 0.03
    broken = {guard.name: guard.text for guard in report.guards if guard.ok is False}
    assert broken.keys() == {"seed_isolation", "artifacts", "declared_figures"}
    for word in ("ler_predecoder", "3 parameters", "10 FLOPs"):
        assert word in broken["declared_figures"]
    for word in ("config.yaml", "checkpoint.pt"):
        assert word in broken["artifacts"]


def test_child_and_parents_share_one_bundle(make_round: Maker, env: Environment, tmp_path: Path) -> None:
    def weaken(weights: dict[str, torch.Tensor]) -> None:
        weights["head.linear"].copy_(torch.tensor([0.5, 0.5, 0.0]))

    run = tmp_path / "20260101-000000"
    rounds = [
        make_round(run / "round_3"),
        make_round(run / "round_1", change=weaken),
        make_round(run / "round_2", {**UNTRAINED_HARD}),
    ]
    child, *parents = verify_together(rounds, env, options(tmp_path / "home"))
    assert len({report.paired_eval_bundle_id for report in (child, *parents)}) == 1
    assert {report.ler_baseline_holdout for report in parents} == {child.ler_baseline_holdout}
    opened = [row for row in Ledger(VerifierDir(tmp_path / "home")).rows() if row["event"] == "opened"]
    spent = [row for row in opened if row["kind"] == "confirm"]
    assert [row["checkpoint"] for row in spent] == [child.checkpoint_sha256]
    assert [(path / "verification_report.json").exists() for path in rounds] == [True, False, False]
    assert {each.verdict for each in parents} == {"SUSPICIOUS"}
    found = child.composition
    assert found.parents == ["round_1", "round_2"]
    assert found.parent_deltas == [each.delta_ler_holdout for each in parents]
    bar = 0.8 * sum(found.parent_deltas)
    assert found.reading == ("composes" if child.delta_ler_holdout > bar else "partial")
    assert all(each.composition is None for each in parents)


UNTRAINED_HARD = {
    "type": "neural_bp",
    "output_mode": "hard_flip",
    "neural_bp": {"iterations": 6},
    "hard_flip": {"confidence": 0.95},
}


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"seeds": (8990, 9010)}, "holdout range"),
        ({"seeds": (1, 5)}, "holdout range"),
        ({"seeds": (9000, 9000), "shots": 2 * CHUNK}, "more labels"),
        ({"confirmations": 0}, "planned"),
        ({"bundle": "0" * 64}, "archive"),
    ],
)
def test_bad_options_are_refused_and_leave_nothing(
    make_round: Maker, env: Environment, tmp_path: Path, changes: dict[str, object], word: str
) -> None:
    folder = make_round(tmp_path / "r")
    with pytest.raises(InputError, match=word):
        verify(folder, env, options(tmp_path / "home", **changes))
    assert not (folder / "verification_report.json").exists()
    assert not (tmp_path / "home" / "bundles").exists()


def test_nothing_is_spent_where_no_report_can_be_written(
    make_round: Maker, env: Environment, tmp_path: Path
) -> None:
    folder = make_round(tmp_path / "r")
    (folder / "verification_report.json").mkdir()
    with pytest.raises(InputError, match="cannot be written"):
        verify(folder, env, options(tmp_path / "home"))
    assert not (tmp_path / "home").exists()


def test_a_checkpoint_of_another_environment_is_refused(
    make_round: Maker, env: Environment, tmp_path: Path
) -> None:
    spec = env.spec.model_copy(update={"name": "other"})
    other = Environment(spec)
    with pytest.raises(InputError, match="another version"):
        verify(make_round(tmp_path / "r", of=other), env, options(tmp_path / "home"))


def test_a_model_that_sees_both_halves_is_judged_by_them(
    make_round: Maker, home: Path, tmp_path: Path
) -> None:
    """The guards know which detectors the backend sees, and what the untrained algorithm is."""
    both = with_both_halves()
    turbo = {"exchanges": 2, "context_iterations": 2, "legs": 2, "leg_exchanges": 2, "solutions": 1}
    dsl = {"type": "neural_bp", "output_mode": "soft_priors", "neural_bp": {"iterations": 2, "turbo": turbo}}
    report = verify(make_round(tmp_path / "round_1", dsl, of=both), both, options(home))
    assert [guard.name for guard in report.guards if guard.ok is False] == []
    assert report.ablation.ler_untrained == report.ablation.ler_real
    assert report.ablation.attribution != "weights"
