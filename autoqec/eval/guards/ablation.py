"""Ablation: does the gain go when the learned numbers do, and if not, is it the algorithm's own?

Two ablated forms: all weights shuffled, and all freshly initialised. What they still win is compared with the untrained
computation of this package's own code. Plain belief propagation already beats plain matching: a model that keeps that
much after ablation does not cheat, its algorithm wins. One that keeps more has its answers from somewhere else.

Where this package's code alone ran there is no such place. There, shuffled weights that win only say that learned values are
much alike, such as one factor on all messages; fresh ones may not. And there a form may be far slower than the model: propagation
with such weights explains no syndrome, so that all attempts are made. It is asked about as many shots as a stated time allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from autoqec.eval.ablations import DOSES, REAL, REINITIALISED, SHUFFLED, UNTRAINED, has_untrained, noisy
from autoqec.eval.bundles import CHUNK
from autoqec.eval.guards import Guard
from autoqec.eval.schema import Ablation, DoseRow, GuardResult
from autoqec.eval.tasks import Candidate
from autoqec.eval.verification_state import LEVEL, VerificationState, is_better
from autoqec.stats.intervals import paired_difference, wilson
from autoqec.stats.table import PairedTable

NAME = "ablation"
FORM_SECONDS = 120.0
"""For each ablated form of this package's own code, on one core."""
SHOWS = 0.01
"""Level at which a gain that the main test has decided must show again on the ablation's part of its shots."""


def prepare(verification: VerificationState) -> Sequence[Candidate]:
    untrained = [UNTRAINED] if has_untrained(verification.subject.dsl) else []
    return _in_chunks(verification, untrained) + tasks_for(verification, [SHUFFLED, REINITIALISED])


def tasks_for(verification: VerificationState, forms: Sequence[str]) -> list[Candidate]:
    """Ablated forms of the subject on the ablation's shots; the tally takes their scores."""
    if verification.subject.holds_code:
        return _in_chunks(verification, forms)
    where, shots = verification.where(verification.reference_p), verification.ablation_shots
    return [Candidate(where, verification.model(form), 0, shots, seconds=FORM_SECONDS) for form in forms]


def ler_of(verification: VerificationState, form: str) -> str:
    """As text, with the number of shots where they are fewer than the ablation's."""
    found = verification.against_plain(verification.reference_p, form, verification.ablation_shots)
    few = "" if found.shots == verification.ablation_shots else f" (on {found.shots} shots)"
    return f"{found.candidate_failures / found.shots:.4g}{few}"


def _in_chunks(verification: VerificationState, forms: Sequence[str]) -> list[Candidate]:
    where, shots = verification.where(verification.reference_p), verification.ablation_shots
    return [
        Candidate(where, verification.model(form), start, min(start + CHUNK, shots))
        for form in forms
        for start in range(0, shots, CHUNK)
    ]


def figures(verification: VerificationState) -> Ablation:
    """What the report says about where the gain comes from. The untrained form of a pure network is the plain backend."""
    p, shots, level = (
        verification.reference_p,
        verification.ablation_shots,
        verification.env.spec.eval_protocol.interval_level,
    )
    plain = verification.plain.name
    untrained = verification.model(UNTRAINED) if has_untrained(verification.subject.dsl) else plain
    table = verification.tally.table

    def of(name: str) -> tuple[int, int]:
        """Failures, and of how many shots."""
        asked = min(shots, verification.tally.shots(p, name))
        return verification.tally.failures(p, name, asked), asked

    def ler(name: str) -> float:
        failures, asked = of(name)
        return failures / asked

    def gain_ci(of: PairedTable) -> tuple[float, float]:
        return paired_difference(of.b, of.c, of.shots, level)

    algorithm = table(p, plain, untrained, shots)
    weights = table(p, untrained, verification.model(), shots)
    algorithm_wins = is_better(algorithm)
    floor = untrained if algorithm_wins else plain
    survives = [
        form
        for form in (SHUFFLED, REINITIALISED)
        if is_better(table(p, floor, verification.model(form), shots))
    ]
    attribution: Literal["algorithm", "weights", "both", "none"] = "none"
    level_of_gain = SHOWS if verification.evidence.decision == "gain" else LEVEL
    if is_better(table(p, plain, verification.model(), shots), level_of_gain):
        attribution = "algorithm" if algorithm_wins else "weights"
        if algorithm_wins and is_better(weights):
            attribution = "both"
    return Ablation(
        shots=shots,
        ler_baseline=ler(plain),
        ler_real=ler(verification.model()),
        ler_shuffled=ler(verification.model(SHUFFLED)),
        ler_reinitialised=ler(verification.model(REINITIALISED)),
        shots_shuffled=of(verification.model(SHUFFLED))[1],
        shots_reinitialised=of(verification.model(REINITIALISED))[1],
        ler_untrained=ler(untrained),
        algorithm_gain=algorithm.delta,
        algorithm_gain_ci=gain_ci(algorithm),
        weights_gain=weights.delta,
        weights_gain_ci=gain_ci(weights),
        attribution=attribution,
        survives=survives,
        changed_by_shuffle=verification.forms(REAL, SHUFFLED).discordant,
        doses=[
            DoseRow(
                dose=dose,
                ler=ler(verification.model(noisy(dose))),
                ler_ci=wilson(*of(verification.model(noisy(dose))), level),
                shots=of(verification.model(noisy(dose)))[1],
            )
            for dose in DOSES
        ],
    )


def judge(verification: VerificationState, _answers: Sequence[Any]) -> GuardResult:
    found = figures(verification)
    wrong = []
    foreign = verification.subject.holds_code
    if found.survives and (foreign or REINITIALISED in found.survives):
        explained = "the untrained algorithm" if found.algorithm_gain > 0 else "nothing"
        wrong.append(
            f"the gain survives: {' and '.join(found.survives)} weights win, and {explained} explains "
            f"{max(found.algorithm_gain, 0.0):.3g} of it"
        )
    if foreign and found.attribution in ("weights", "both"):
        if not found.changed_by_shuffle:
            wrong.append("shuffling all weights changes nothing")
        elif not is_better(verification.forms(SHUFFLED, REAL), SHOWS):
            wrong.append("shuffled weights are not worse than the real ones")
        if not any(is_better(verification.forms(noisy(dose), REAL), SHOWS) for dose in DOSES):
            wrong.append(
                "the weights win, and no dose of noise on them hurts: what wins does not depend on their values"
            )
    if found.attribution == "none" and verification.evidence.decision == "gain":
        wrong.append(f"the gain does not show on the {found.shots} shots of the ablation")
    meaning = {
        "algorithm": "the algorithm wins: what the weights add to it does not show on these shots",
        "weights": "the weights win: untrained there is no gain",
        "both": "algorithm and weights win",
        "none": "no gain to explain",
    }[found.attribution]
    text = "; ".join(wrong) or (
        f"{meaning}. LER on {found.shots} shots: baseline {found.ler_baseline:.4g}, untrained {found.ler_untrained:.4g}, "
        f"real {found.ler_real:.4g}, shuffled {ler_of(verification, SHUFFLED)}, re-initialised {ler_of(verification, REINITIALISED)}"
    )
    return GuardResult(
        name=NAME,
        ok=not wrong,
        severity="doubts",
        number=verification.forms(SHUFFLED, REAL).delta,
        text=text,
        facts={"attribution": found.attribution},
    )


GUARD = Guard(NAME, judge, prepare)
