"""Guards against models that are not what they seem. Each model is the code of a branch, run by a real worker."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import autoqec
from autoqec.decoders.backends.matching import MatchingBackend
from autoqec.decoders.compiler import compile_predecoder
from autoqec.decoders.cost import count_flops
from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.decoders.modules.cascade import CascadePredecoder
from autoqec.decoders.stage_cost import HARD, stage_flops
from autoqec.envs.environment import Environment
from autoqec.envs.packing import unpack
from autoqec.envs.schema import ConstraintsSpec, SeedPolicy
from autoqec.eval import hidden_work, metering
from autoqec.eval.ablations import (
    DOSES,
    REAL,
    SHUFFLED,
    has_untrained,
    noisy,
    shuffled,
    untrained_config,
    with_noise,
)
from autoqec.eval.bundles import CHUNK
from autoqec.eval.guards import (
    ablation,
    batch_independence,
    cost_census,
    declared_figures,
    dose_response,
    frozen_baseline,
    guards,
    more_rounds,
    replay,
    seed_isolation,
)
from autoqec.eval.guards.more_rounds import longer
from autoqec.eval.metering import REFERENCE
from autoqec.eval.stage_census import COUNTED, GROUPS, MORE, StageCount
from autoqec.eval.tally import Tally
from autoqec.eval.tasks import Candidate, Scored, Where
from autoqec.eval.two_paths import Compared
from autoqec.eval.verification_state import Estimated
from autoqec.eval.verifier_worker import SLICE, VerifierWorker
from autoqec.eval.worker_setup import ModelSpec, WorkerSetup
from autoqec.sandbox.kernel_cache import installed_root
from autoqec.sandbox.kinds import strongest
from tests.decoders.both_halves import with_both_halves

P = 0.01
SHOTS = 4000
SOFT = {"type": "neural_bp", "output_mode": "soft_priors", "neural_bp": {"iterations": 1}}
CASCADE = {
    "type": "cascade",
    "output_mode": "soft_priors",
    "stages": [
        {"type": "neural_bp", "neural_bp": {"iterations": 1}},
        {"type": "gnn", "gnn": {"layers": 2, "hidden_dim": 8}, "share": 0.1},
    ],
}
MODULE = "autoqec/decoders/modules/predecoders.py"
FRAME = """

class _Changed(NeuralBpPredecoder):
    seen = 0

    def edge_log_odds(self, syndrome, ctx):
        if syndrome.numpy().tobytes() in globals().get("_KEPT", ()):
            return globals()["_KEPT"][syndrome.numpy().tobytes()]
        weights = super().edge_log_odds(syndrome, ctx)
        {line}
        return weights

PREDECODERS["neural_bp"] = _Changed
"""


@pytest.fixture(scope="module")
def where(env: Environment, tmp_path_factory: pytest.TempPathFactory) -> Where:
    folder = tmp_path_factory.mktemp("shots")
    shots = env.sampler(P).sample(SHOTS, 5)
    shots.detectors.tofile(folder / "d")
    shots.observables.tofile(folder / "o")
    return Where("x", folder / "d", folder / "o")


@pytest.fixture
def verifier_with(env: Environment, tmp_path: Path) -> Iterator[Callable[..., VerifierWorker]]:
    opened: list[VerifierWorker] = []

    def make(line: str, dsl: dict[str, Any] = SOFT) -> VerifierWorker:
        root = tmp_path / "code"
        package = Path(autoqec.__file__).parent
        shutil.copytree(package, root / "autoqec", ignore=shutil.ignore_patterns("__pycache__"))
        with (root / MODULE).open("a") as file:
            file.write(FRAME.replace("{line}", line))
        models = {
            "0/real": ModelSpec(dsl, None, "soft_priors", root),
            f"0/{REFERENCE}": ModelSpec(dsl, None, "soft_priors", installed_root()),
        }
        setup = WorkerSetup({"x": env.problem(P)}, models, "mwpm", strongest().name, 300.0)
        opened.append(VerifierWorker(setup))
        return opened[-1]

    yield make
    for verifier in opened:
        verifier.close()


def after_the_main_test(verifier: VerifierWorker, where: Where, env: Environment) -> Any:
    tally = Tally()
    tally.add(P, "0/real", Candidate(where, "0/real", 0, SHOTS, metered=True).run(verifier))
    return metered_verification(tally, where=lambda _p: where, env=env)


def metered_verification(tally: Tally, **facts: Any) -> Any:
    """Of code that is not this package's, whose config is."""
    subject = SimpleNamespace(
        n_params=1,
        n_bytes=4,
        metrics=None,
        sha256="",
        code=SimpleNamespace(is_trusted=False),
        holds_code=True,
        config=PredecoderDSL.model_validate(SOFT),
    )
    return SimpleNamespace(
        tally=tally,
        reference_p=P,
        model=lambda: "0/real",
        subject=subject,
        bundle=SimpleNamespace(name="b"),
        secret=SimpleNamespace(seed=lambda *_: 77),
        **{"estimated": None, **facts},
    )


def watched(verifier: VerifierWorker, where: Where, env: Environment) -> dict[str, Any]:
    """The main test, then the three guards that watch how it answers."""
    verification = after_the_main_test(verifier, where, env)
    found = {
        replay: replay.prepare(verification)[0].run(verifier),
        batch_independence: batch_independence.Mix(where, "0/real", 2000, 11).run(verifier),
        cost_census: cost_census.prepare(verification)[0].run(verifier),
    }
    return {guard.NAME: guard.judge(verification, [answer]) for guard, answer in found.items()}


@pytest.mark.verifier
@pytest.mark.parametrize(
    ("line", "broken"),
    [
        ("pass", set()),
        ("weights = weights + 3 * torch.rand_like(weights)", {"replay", "batch_independence", "cost_census"}),
        ("weights = weights - weights.mean(dim=0, keepdim=True)", {"batch_independence"}),
        ("weights = weights * (1 + len(syndrome) / 50) - len(syndrome) / 50", {"batch_independence"}),
        (
            "_Changed.seen += len(syndrome); weights = weights - 6.0 * (_Changed.seen > 1200)",
            {"replay"},
        ),
        ("weights = weights if self.bp.fused else -weights", {"cost_census"}),
        (
            "from torch.utils._python_dispatch import _get_current_dispatch_mode as mode; weights *= -1.0 if mode() else 1.0",
            {"cost_census"},
        ),
        (
            "weights[::20] *= 1.0 if self.bp.fused else 1.1  # which decides nothing otherwise",
            {"cost_census"},
        ),
    ],
    ids=[
        "honest",
        "random",
        "cross-shot",
        "batch size",
        "state",
        "counts another path",
        "knows the census",
        "for some shots",
    ],
)
def test_each_trick_breaks_its_guard(
    verifier_with: Callable[[str], VerifierWorker],
    where: Where,
    env: Environment,
    line: str,
    broken: set[str],
) -> None:
    found = watched(verifier_with(line), where, env)
    failed = {name for name, result in found.items() if not result.ok}
    assert failed >= broken, {name: result.text for name, result in found.items()}
    if not broken:
        assert not failed, {name: result.text for name, result in found.items()}


@pytest.mark.verifier
@pytest.mark.parametrize("cpu_s", [0.06, 2.0], ids=["charged", "stopped"])
def test_work_outside_torch_shows_in_the_time_it_takes(
    verifier_with: Callable[[str], VerifierWorker], where: Where, env: Environment, cpu_s: float
) -> None:
    """A little is charged or condemned at the end; a model that takes far too long is not asked again, so that nobody waits for it."""
    code = f"""import time, numpy
        end = time.process_time() + {cpu_s}
        while len(syndrome) > 200 and time.process_time() < end:
            numpy.linalg.svd(numpy.ones((60, 60)))"""
    verifier = verifier_with(code)
    verification = after_the_main_test(verifier, where, env)
    found = cost_census.judge(verification, [cost_census.prepare(verification)[0].run(verifier)])
    if found.ok:
        assert cpu_s < 1
        assert "charged for its CPU time" in found.text
    else:
        assert "hidden" in found.text
    scored = verification.tally.parts[P, "0/real"][0]
    assert scored.invalid == (SHOTS if cpu_s > 1 else 0), scored.complaints


@pytest.mark.verifier
def test_remembered_answers_are_counted_in_full(
    verifier_with: Callable[[str], VerifierWorker], where: Where, env: Environment
) -> None:
    code = """key = syndrome.numpy().tobytes()
        kept = globals().setdefault("_KEPT", {})
        weights = kept.setdefault(key, weights)"""
    verifier = verifier_with(code)
    verification = after_the_main_test(verifier, where, env)
    counted = cost_census.prepare(verification)[0].run(verifier)
    module = compile_predecoder(PredecoderDSL.model_validate(SOFT), env.problem(P))
    assert counted.error is None
    assert counted.flops >= count_flops(module, env.problem(P))
    assert counted.spread == 0


@pytest.mark.verifier
def test_each_stage_is_metered_on_the_shots_that_reach_it(
    verifier_with: Callable[..., VerifierWorker], where: Where, env: Environment
) -> None:
    """A small slow stage in front says nothing about the speed of a large one behind it."""
    scored = Candidate(where, "0/real", 0, SHOTS, metered=True).run(verifier_with("pass", CASCADE))
    problem = env.problem(P)
    module = compile_predecoder(PredecoderDSL.model_validate(CASCADE), problem)
    assert isinstance(module, CascadePredecoder)
    first, later = stage_flops(module, problem)
    share = scored.answered[1] / SHOTS
    assert 0 < share < 0.5
    spent = [metering.Metered(*stage) for stage in scored.metered]
    assert [stage.shots for stage in spent] == [SHOTS, scored.answered[1]]
    assert [stage.reference_flops for stage in spent] == [first, later]
    assert all(0 < stage.plain_shots <= stage.shots for stage in spent)


def test_chunks_of_other_shares_add_up_to_a_mean() -> None:
    chunks = [
        metering.Metered(1000, 1.0, 100, 0.1, 100, 0.1, 1000, 8.0, 8.0),
        metering.Metered(1000, 1.0, 100, 0.1, 300, 0.9, 5000, 9.0, 7.0),
    ]
    (total,) = metering.summed([(tuple(chunk),) for chunk in chunks])
    assert total.reference_flops == 4000
    assert (total.plain_s, total.build_s, total.reference_build_s) == (1.0, 9.0, 7.0)


def spent(cpu_s: float, *, build_s: float = 8.0) -> Any:
    """A verification of 1000 shots; the reference takes 1 s for 1000 as it is counted, a tenth as it runs, at 1000 FLOPs."""
    tally = Tally()
    figures = metering.Metered(1000, cpu_s, 1000, 0.1, 100, 0.1, 1000, build_s, 8.0)
    bits = np.zeros(125, np.uint8)
    tally.add(P, "0/real", Scored(0, 1000, bits, 0.0, metered=(tuple(figures),)))
    return metered_verification(
        tally,
        env=SimpleNamespace(spec=SimpleNamespace(constraints=SimpleNamespace(over_budget=lambda *_: []))),
    )


def test_what_the_cpu_time_says_about_the_count() -> None:
    counted = cost_census.Counted(1000, (1.0, 1.0), 1.0)

    def judged(**changes: Any) -> Any:
        return lambda verification: (
            cost_census.judge(verification, [counted._replace(**changes)]),
            cost_census.census(verification, counted._replace(**changes)).flops_per_syndrome,
        )

    assert judged()(spent(0.1))[0].ok
    assert judged()(spent(0.1))[1] == 1000
    assert judged()(spent(0.29))[1] == 1000, (
        "up to three times slower than the reference as it runs nothing is charged"
    )
    slow, charged = judged()(spent(1.0))
    assert slow.ok, "as fast as the reference is without its kernels"
    assert charged == 3333
    assert "3333 FLOPs per syndrome charged" in slow.text
    assert slow.facts["slower_than_reference"] == pytest.approx(10.0, abs=0.01)
    hidden, _ = judged()(spent(2.6))
    assert not hidden.ok
    assert "hidden from the count" in hidden.text
    assert judged(flops=100)(spent(0.45))[0].ok is False
    assert judged(flops=0)(spent(0.02))[0].ok, "shots are read and answers written without an operation"
    built, _ = judged()(spent(0.1, build_s=60.0))
    assert "before the first shot" in built.text
    called, _ = judged(per_call=5000)(spent(0.1))
    assert "whatever its batch" in called.text
    silent = spent(0.1)
    silent.tally.parts[P, "0/real"].append(Scored(1000, 8, np.zeros(1, np.uint8), 0.0))
    assert not judged()(silent)[0].ok, "a part of the main test was not metered"


def test_more_work_at_another_p_is_named() -> None:
    counted = cost_census.Counted(1000, (1.0, 1.0), 1.0)
    others = [counted._replace(p=0.001, flops=1040), counted._replace(p=0.02, flops=3000)]
    found = cost_census.judge(spent(0.1), [counted, *others])
    assert found.ok
    assert "3000 FLOPs at p = 0.02" in found.text
    assert "p = 0.001" not in found.text
    assert found.facts["flops_at"] == {"0.02": 3000}


def test_a_stage_is_judged_per_shot_that_reaches_it() -> None:
    """The reference takes 0.1 ms for a shot as it runs, and 1 ms as it is counted, at either stage."""

    def stage(shots: int, cpu_s: float) -> metering.Metered:
        return metering.Metered(shots, cpu_s, shots, 1e-4 * shots, shots, 1e-3 * shots, 1000, 1.0, 1.0)

    first, flops = stage(10_000, 1.0), (1000, 1000)
    assert hidden_work.hidden([first, stage(200, 0.02)], flops, True) == []
    (wrong,) = hidden_work.hidden([first, stage(200, 2.0)], flops, True)
    assert "of stage 2" in wrong
    assert "10000: work is hidden" in wrong
    assert hidden_work.hidden([stage(10_000, 3.0)], (1000,), True) == [], "in the mean it is nothing"
    assert hidden_work.hidden([first, stage(2, 0.03)], flops, True) == [], "within the clock's error"
    assert hidden_work.hidden([first, stage(0, 0.0)], flops, True) == []
    assert hidden_work.hidden([first], flops, True) == ["its CPU time in the main test is not known"]
    assert hidden_work.charged_flops([first, stage(200, 0.02)], flops, True) == 1020
    assert hidden_work.charged_flops([first, stage(200, 0.6)], flops, True) == 1000 + 200


def test_a_budget_is_held_against_the_upper_bound_of_the_share() -> None:
    """A fifth of 20,000 shots reach the second stage: 21,000 FLOPs in the mean, 21,470 by the bound on that share."""
    tally = Tally()
    tally.add(P, "0/real", Scored(0, 20_000, np.zeros(2500, np.uint8), 0.0, answered=(16_000, 4000)))
    stages = StageCount((1000, 100_000), (0.0, 0.0), (64, 64), (0, 0), (1.0,) * 3)
    counted = cost_census.Counted(1000, (1.0, 1.0), 1.0, stages=stages)

    def judged(budget: int) -> list[str]:
        constraints = ConstraintsSpec(latency_flops_budget=budget)
        spec = SimpleNamespace(constraints=constraints, noise=SimpleNamespace(p=[P]))
        found = cost_census.census(metered_verification(tally, env=SimpleNamespace(spec=spec)), counted)
        assert found.flops_per_syndrome == 21_000
        return found.over_budget

    assert judged(21_200) != []
    assert judged(21_600) == []


def test_a_later_stage_that_is_counted_by_another_path_is_named() -> None:
    tally = Tally()
    tally.add(P, "0/real", Scored(0, 20_000, np.zeros(2500, np.uint8), 0.0, answered=(19_600, 400)))
    spec = SimpleNamespace(constraints=ConstraintsSpec(), noise=SimpleNamespace(p=[P]))

    def judged(otherwise: int) -> Any:
        compared = (Compared(0, 64), Compared(otherwise, 80))
        stages = StageCount((1000, 9000), (0.0, 0.0), (64, 64), (0, 0), (1.0,) * 3, compared)
        verification = metered_verification(tally, env=SimpleNamespace(spec=spec))
        verification.subject.code.is_trusted = True
        return cost_census.judge(verification, [cost_census.Counted(1000, (1.0, 1.0), 1.0, stages=stages)])

    assert judged(2).ok
    assert "of stage 2 answers 3 of 80 shots otherwise" in judged(3).text
    assert not judged(3).ok


def test_the_workers_of_the_estimate_decode_the_main_test_as_it_was() -> None:
    bits = np.packbits(np.arange(4096) % 5 == 0, bitorder="little")
    tally = Tally()
    tally.add(P, "0/real", Scored(0, 4096, bits, 0.0))
    found = replay.Replayed(2048, 0, bits[256:])

    def judged(*again: Scored) -> Any:
        estimated = Estimated(Tally(), again)
        return replay.judge(metered_verification(tally, estimated=estimated), [found])

    same = [Scored(start, 2048, bits[start // 8 :][:256], 0.0) for start in (2048, 0)]
    assert judged(*same).ok

    def changed(shots: int) -> Scored:
        return Scored(0, 2048, bits[:256] ^ np.packbits(np.arange(2048) < shots, bitorder="little"), 0.0)

    allowed = int(replay.ALLOWED_LATER * 4096 / 5)
    assert judged(same[0], changed(allowed)).ok  # rounding, in other batches
    late = judged(same[0], changed(allowed + 1))
    assert not late.ok
    assert f"4096 shots in the workers of the estimate: {allowed + 1} failures differ" in late.text


def declared(rng: np.random.Generator, count: int, *, times: float = 1.0) -> Any:
    """A cascade with a fifth of the shots at a stage whose cost is exponential, and what an honest round says of it, `times` that."""
    groups = rng.exponential(100_000, (GROUPS, count // GROUPS)).mean(axis=1)
    flops = (1000, round(groups.mean()))
    stages = StageCount(
        flops, (0.0, float(np.ptp(groups) / groups.mean())), (count, count), (0, 0), (1.0,) * 3
    )
    tally, shots, shares_of = Tally(), 20_000, 2000
    later = int(rng.binomial(shots, 0.2))
    tally.add(
        P, "0/real", Scored(0, shots, np.zeros(shots // 8, np.uint8), 0.0, answered=(shots - later, later))
    )
    share = rng.binomial(shares_of, 0.2) / shares_of
    said = 1000 + share * rng.exponential(100_000, HARD).mean()
    metrics = {
        "flops_per_syndrome": times * said,
        "reference_p": 0.5,
        "cascade": {"per_p": [{"p": P, "shots": shares_of}]},
    }
    protocol = SimpleNamespace(min_shots_val=1_000_000)
    verification = metered_verification(
        tally, env=SimpleNamespace(spec=SimpleNamespace(eval_protocol=protocol, noise=SimpleNamespace(p=[P])))
    )
    verification.subject.metrics = metrics
    counted = cost_census.Counted(1000, (1.0, 1.0), 1.0, stages=stages)
    return declared_figures.judge(verification, [counted])


@pytest.mark.parametrize("count", [COUNTED, MORE])
def test_declared_costs_may_differ_by_the_shots_that_they_were_counted_on(count: int) -> None:
    rng = np.random.default_rng(5)
    results = [declared(rng, count) for _ in range(200)]
    assert [result.text for result in results if not result.ok] == []
    assert not any(declared(rng, count, times=4.0).ok for _ in range(20))


def scores(base: int, *, holds_code: bool = True, **failures: int) -> Any:
    """A verification whose forms fail on the given numbers of 10,000 shots, nested: a better form fails on fewer of the same."""
    tally = Tally()
    order = np.random.default_rng(1).permutation(10_000)
    for name, count in {"plain": base, **failures}.items():
        failed = np.zeros(10_000, bool)
        failed[order[:count]] = True
        shown = name if name == "plain" else f"0/{name.replace('_', ' ')}"
        tally.add(P, shown, Scored(0, 10_000, np.packbits(failed, bitorder="little"), 0.0))
    return SimpleNamespace(
        tally=tally,
        reference_p=P,
        ablation_shots=10_000,
        model=lambda form=REAL: f"0/{form}",
        forms=lambda a, b: tally.table(P, f"0/{a}", f"0/{b}"),
        against_plain=lambda p, form, shots: tally.table(p, "plain", f"0/{form}", shots),
        plain=SimpleNamespace(name="plain"),
        subject=SimpleNamespace(dsl={"type": "neural_bp"}, holds_code=holds_code),
        env=SimpleNamespace(spec=SimpleNamespace(eval_protocol=SimpleNamespace(interval_level=0.95))),
        evidence=SimpleNamespace(decision="gain"),
    )


def doses(*failures: int) -> dict[str, int]:
    return {noisy(dose): count for dose, count in zip(DOSES, failures, strict=True)}


GENTLE = doses(500, 520, 700, 3000)


@pytest.mark.parametrize(
    ("forms", "attribution", "ok"),
    [
        ({"real": 500, "untrained": 800, "shuffled": 3000, "reinitialised": 800}, "weights", True),
        ({"real": 500, "untrained": 505, "shuffled": 3000, "reinitialised": 505}, "algorithm", True),
        ({"real": 500, "untrained": 505, "shuffled": 505, "reinitialised": 505}, "algorithm", True),
        ({"real": 500, "untrained": 640, "shuffled": 3000, "reinitialised": 640}, "both", True),
        ({"real": 500, "untrained": 800, "shuffled": 3000, "reinitialised": 500}, "weights", False),
        ({"real": 500, "untrained": 800, "shuffled": 510, "reinitialised": 800}, "weights", False),
        ({"real": 500, "untrained": 640, "shuffled": 3000, "reinitialised": 500}, "both", False),
        ({"real": 500, "untrained": 640, "shuffled": 500, "reinitialised": 640}, "both", False),
        ({"real": 795, "untrained": 800, "shuffled": 3000, "reinitialised": 800}, "none", False),
    ],
)
def test_ablation_tells_algorithm_weights_and_neither(
    forms: dict[str, int], attribution: str, ok: bool
) -> None:
    verification = scores(800, **forms, **GENTLE)
    found = ablation.judge(verification, ())
    assert found.facts["attribution"] == attribution, found.text
    assert found.ok is ok, found.text


def test_a_form_that_is_slow_is_judged_on_the_shots_that_it_was_asked() -> None:
    forms = {"real": 500, "untrained": 505, "shuffled": 3000, "reinitialised": 505}
    verification = scores(800, holds_code=False, **forms, **GENTLE)
    for form in ("shuffled", noisy(DOSES[-1])):
        (all_of_them,) = verification.tally.parts[P, f"0/{form}"]
        verification.tally.parts[P, f"0/{form}"] = [Scored(0, 96, all_of_them.bits[:12] | 0xFF, 0.0)]
    assert ablation.judge(verification, ()).ok
    found = ablation.figures(verification)
    assert (found.shots, found.shots_shuffled, found.shots_reinitialised) == (10_000, 96, 10_000)
    assert (found.ler_shuffled, found.ler_reinitialised, found.doses[-1].ler) == (1.0, 0.0505, 1.0)
    assert [dose.shots for dose in found.doses] == [10_000, 10_000, 10_000, 96]
    judged = ablation.judge(verification, ())
    assert "shuffled 1 (on 96 shots), re-initialised 0.0505" in judged.text
    real = verification.forms("real", "shuffled")
    assert judged.number == (real.c - real.b) / 96, "on the shots of both"
    assert (
        dose_response.judge(verification, ()).text
        == "LER 0.05, 0.05, 0.052, 0.07, 1 (on 96 shots) at noise 0, 0.001, 0.1, 0.3, 1"
    )


def test_a_trace_of_noise_that_was_asked_too_few_shots_is_not_judged() -> None:
    forms = {"real": 500, "untrained": 505, "shuffled": 3000, "reinitialised": 505}
    verification = scores(800, holds_code=False, **forms, **GENTLE)
    name = f"0/{noisy(DOSES[0])}"
    (all_of_them,) = verification.tally.parts[P, name]
    verification.tally.parts[P, name] = [Scored(0, 40, all_of_them.bits[:5] | 0xFF, 0.0)]
    found = dose_response.judge(verification, ())
    assert found.ok is None
    assert "1 (on 40 shots)" in found.text


@pytest.mark.parametrize("holds_code", [True, False])
def test_only_this_package_s_own_code_has_a_time_for_its_ablated_forms(holds_code: bool) -> None:
    """Foreign code could be slow where it would be found out."""
    verification = scores(800, holds_code=holds_code)
    verification.ablation_shots = 25_000
    verification.where = lambda _p: None
    tasks = ablation.tasks_for(verification, ["shuffled"])
    assert [(task.start, task.stop) for task in tasks] == (
        [(0, 10_000), (10_000, 20_000), (20_000, 25_000)] if holds_code else [(0, 25_000)]
    )
    assert {task.seconds is None for task in tasks} == {holds_code}


def test_alike_weights_may_be_shuffled_where_no_code_can_hide() -> None:
    """One learned factor on all messages stays in place under a shuffle; this package's code has nothing else to win by."""
    alike = {"real": 500, "untrained": 640, "shuffled": 500, "reinitialised": 640}
    assert ablation.judge(scores(800, holds_code=False, **alike, **GENTLE), ()).ok
    assert not ablation.judge(scores(800, **alike, **GENTLE), ()).ok
    fresh = {**alike, "reinitialised": 500}
    assert not ablation.judge(scores(800, holds_code=False, **fresh, **GENTLE), ()).ok


def test_a_decided_gain_need_not_be_overwhelming_on_the_ablation_s_shots() -> None:
    """8 of 8 discordant shots: below one in a hundred, above one in a thousand."""
    forms = {"real": 792, "untrained": 800, "shuffled": 3000, "reinitialised": 800}
    verification = scores(800, **forms, **doses(792, 800, 900, 3000))
    assert ablation.judge(verification, ()).ok
    verification.evidence.decision = "undecided"
    assert ablation.judge(verification, ()).facts["attribution"] == "none"


def test_labels_are_compared_as_ranges_however_long_they_are() -> None:
    def judged(low: int, high: int) -> Any:
        policy = SeedPolicy()
        verification: Any = SimpleNamespace(
            env=SimpleNamespace(spec=SimpleNamespace(noise=SimpleNamespace(seed_policy=policy))),
            subject=SimpleNamespace(train_labels=(low, high)),
            bundle=SimpleNamespace(labels_used=lambda: [9000, 9001]),
        )
        return seed_isolation.judge(verification, ())

    assert judged(1, 999).ok
    assert judged(0, -1).ok
    assert not judged(0, 999).ok
    assert not judged(1, 1000).ok
    assert judged(900, 9050).number == 51
    assert judged(-(2**62), 2**62).number == 1000


def test_the_replay_asks_the_main_test_s_own_questions_again() -> None:
    """Other batches would round differently, and an honest network could be called a cheat for it."""
    for shots in (10_000, 30_000, 4000, 500):
        verification: Any = SimpleNamespace(
            reference_p=P,
            tally=SimpleNamespace(shots=lambda _p, _m, n=shots: n),
            where=lambda _p: None,
            model=lambda: "m",
        )
        task = replay.prepare(verification)[0]
        assert (task.start % CHUNK) % SLICE == 0
        assert task.stop == shots
        assert min(shots, SLICE) < task.stop - task.start + 1 <= 2 * SLICE + 1


def test_dose_response() -> None:
    forms = {"real": 500, "untrained": 800, "shuffled": 3000, "reinitialised": 800}
    assert dose_response.judge(scores(800, **forms, **GENTLE), ()).ok
    checksum = dose_response.judge(scores(800, **forms, **doses(3000, 3000, 3000, 3000)), ())
    assert not checksum.ok
    assert "0.001" in checksum.text
    assert checksum.number > 1
    unfinished = dose_response.judge(scores(800, **forms, **doses(500, 400, 300, 3000)), ())
    assert unfinished.ok, "noise may improve a model that was not trained to its best"
    spared = dose_response.judge(scores(800, **forms, **doses(500, 500, 900, 600)), ())
    assert spared.ok, "a large noise may spare the weights that matter"
    assert "0.0" in spared.text


def test_ablated_weights() -> None:
    rng = np.random.default_rng(0)
    state = {
        "a": np.arange(12, dtype=np.float32).reshape(3, 4),
        "b": np.float32(50) + np.zeros(2, np.float32),
    }
    mixed = shuffled(state, rng)
    assert sorted(np.concatenate([mixed["a"].ravel(), mixed["b"]])) == sorted([*range(12), 50, 50])
    assert not np.array_equal(mixed["a"], state["a"])
    assert {name: (array.shape, array.dtype) for name, array in mixed.items()} == {
        name: (array.shape, array.dtype) for name, array in state.items()
    }
    hurt = with_noise(state, 0.1, rng)
    moved = np.abs(hurt["a"] - state["a"]).mean() / np.sqrt(np.mean(state["a"] ** 2))
    assert 0.03 < moved < 0.3


def test_no_number_is_spared_by_the_zeros_around_it() -> None:
    """A key in one number among a million zeros, in the last digits of eight bytes, in signs of zero, or too small to square."""
    rng = np.random.default_rng(0)
    alone = np.zeros(1_000_000)
    alone[123_456] = 1.0 + 2.0**-20
    moved = with_noise({"key": alone}, DOSES[0], rng)["key"]
    assert abs(moved[123_456] - alone[123_456]) > 2.0**-20
    small = np.full(1000, 5e-324)
    assert (with_noise({"key": small}, 1.0, rng)["key"] != small).any()
    signs = np.where(np.arange(1000) % 2, -0.0, 0.0)
    assert (np.signbit(with_noise({"key": signs}, DOSES[0], rng)["key"]) != np.signbit(signs)).sum() > 100
    large = np.full(4, 3e38, np.float32)
    assert np.isfinite(with_noise({"key": large}, 1.0, rng)["key"]).all()
    assert np.isfinite(shuffled({"a": np.full(4, 1e300), "b": large}, rng)["b"]).all()


def test_the_untrained_computation_keeps_the_algorithm_only() -> None:
    def of(dsl: dict[str, Any]) -> dict[str, Any] | None:
        return untrained_config(SimpleNamespace(dsl=dsl, output_mode=dsl["output_mode"]))  # type: ignore[arg-type]

    hybrid = {**SOFT, "type": "hybrid", "gnn": {"layers": 2}, "head": "mlp_small"}
    assert of(hybrid) == {**SOFT, "neural_bp": {"iterations": 1, "damping": "fixed"}}
    assert of({"type": "gnn", "output_mode": "soft_priors", "gnn": {}}) is None
    turbo = {"exchanges": 3, "context_iterations": 2, "legs": 4}
    both = {**SOFT, "neural_bp": {"iterations": 1, "weight_sharing": "per_check", "turbo": turbo}}
    assert of(both)["neural_bp"] == {"iterations": 1, "turbo": turbo, "damping": "fixed"}
    strange = {**SOFT, "neural_bp": {"iterations": "many", "check_rule": "magic"}}
    assert of(strange)["neural_bp"] == {"damping": "fixed"}


def test_an_untrained_cascade_keeps_places_and_orders() -> None:
    bp = {"type": "neural_bp", "neural_bp": {"iterations": 2}}
    net = {"type": "gnn", "gnn": {"layers": 4, "hidden_dim": 32}}

    def of(*stages: dict[str, Any]) -> list[dict[str, Any]] | None:
        dsl = {"type": "cascade", "output_mode": "soft_priors", "stages": list(stages)}
        made = untrained_config(SimpleNamespace(dsl=dsl, output_mode="soft_priors"))  # type: ignore[arg-type]
        assert has_untrained(dsl) == (made is not None)
        if made is not None:
            PredecoderDSL.model_validate(made)
        return None if made is None else made.get("stages", [made])

    def types(stages: list[dict[str, Any]] | None) -> list[str]:
        return [stage["type"] for stage in stages or []]

    assert types(of(bp, {**net, "share": 0.1})) == ["neural_bp"]
    assert types(of(net, {**bp, "share": 0.1})) == ["gnn", "neural_bp"]
    ordered = of(bp, {**net, "share": 0.1, "order": 10})
    assert types(ordered) == ["neural_bp", "gnn"]
    assert ordered is not None
    assert ordered[1]["order"] == 10
    first = of({**bp, "order": 10}, {**net, "share": 0.1})
    assert first is not None
    assert [stage["order"] for stage in first] == [10, 10]
    assert of(net, {**net, "share": 0.1}) is None
    swept = of(net, {**net, "share": 0.2}, {"type": "sweep", "states": 16, "share": 0.1})
    assert types(swept) == ["gnn", "gnn", "sweep"]
    assert swept is not None
    assert swept[2]["states"] == 16
    legs = of(net, {"type": "joint_legs", "legs": 5, "share": 0.1, "takes": "unsure"})
    assert types(legs) == ["gnn", "joint_legs"]
    assert legs is not None
    assert (legs[1]["legs"], legs[1]["takes"]) == (5, "unsure")


def test_thresholds_of_gates_are_not_shuffled_into_weights() -> None:
    state = {"weights": np.arange(50.0), "thresholds": np.array([3.4e38])}
    mixed = shuffled(state, np.random.default_rng(1))
    assert mixed["thresholds"] == state["thresholds"]
    assert sorted(mixed["weights"]) == sorted(state["weights"])


def test_rates_follow_from_priors(env: Environment) -> None:
    problem = env.problem(P)
    rates = frozen_baseline.predicted_rates(problem)
    rows = problem.h.toarray().astype(bool)
    expected = [(1 - np.prod(1 - 2 * problem.priors[row])) / 2 for row in rows]
    assert np.allclose(rates, expected)


def test_rates_of_an_environment_with_both_halves_are_those_of_the_joint_model() -> None:
    both = with_both_halves()
    fired = unpack(both.sampler(0.02).sample(50_000, 3).detectors, both.problem(0.02).n_checks).mean(axis=0)
    rates = frozen_baseline.predicted_rates(both.problem(0.02))
    assert rates.min() > 0
    # Stim's model leaves out what happens at once in one channel: 1%, beside five standard errors.
    assert np.all(np.abs(fired - rates) < 0.01 * rates + 5 * np.sqrt(rates / 50_000))


def test_a_spoilt_plain_matcher_is_found_by_a_second_one(env: Environment) -> None:
    code = env.spec.code.model_copy(update={"source": "surface_code:rotated_memory_z?distance=2&rounds=2"})
    even = Environment(env.spec.model_copy(update={"code": code}))
    problem, shots = even.problem(P), even.sampler(P).sample(SHOTS, 5)
    backend = MatchingBackend(problem)
    verifier = SimpleNamespace(setup=SimpleNamespace(problems={"even": problem}), backend=lambda _: backend)
    verification = SimpleNamespace(env=even, plain=SimpleNamespace(name="pymatching"))

    def found(plain: Any) -> frozen_baseline.Checked:
        backend.decode = plain  # type: ignore[method-assign]
        where = SimpleNamespace(problem="even", read=lambda *_: shots)
        return frozen_baseline.Check(where, SHOTS).run(verifier)  # type: ignore[arg-type]

    decode = backend.decode
    honest = found(decode)
    assert honest.disagree < 0.01 * SHOTS
    assert frozen_baseline.judge(verification, [honest]).ok  # type: ignore[arg-type]
    spoilt = found(lambda detectors: decode(detectors) ^ (np.arange(len(detectors)) % 20 == 0)[:, None])
    verdict = frozen_baseline.judge(verification, [spoilt])  # type: ignore[arg-type]
    assert not verdict.ok
    assert "significantly better" in verdict.text


def test_longer_memories(env: Environment) -> None:
    assert longer(env).problem(P).n_checks > 1.8 * env.problem(P).n_checks
    assert "rounds=8" in longer(env).spec.code.source
    fixed = Environment(
        env.spec.model_copy(update={"code": env.spec.code.model_copy(update={"source": "x.stim"})})
    )
    assert longer(fixed) is None
    reasons = {
        of.spec.code.source: more_rounds.judge(SimpleNamespace(env=of), ()).text  # type: ignore[arg-type]
        for of in (env, fixed)
    }
    assert "no number of rounds" in reasons["x.stim"]
    assert "faults" in reasons[env.spec.code.source]


def test_every_guard_is_listed_once() -> None:
    names = [guard.name for guard in guards()]
    files = Path(autoqec.__file__).parent / "eval" / "guards"
    assert sorted(names) == sorted(path.stem for path in files.glob("*.py") if path.stem != "__init__")
    assert SHUFFLED in ablation.__dict__.values()
