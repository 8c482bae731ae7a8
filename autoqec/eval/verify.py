"""`verify`: the independent verification of one round, or of a child and its parents on the same shots.

This side is trusted: it builds the decoding problem, samples shots with secret seeds, keeps the observables, runs the
classical backend and scores. The model runs in confined workers that see syndromes only. Nothing that the round's
files claim is used.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from autoqec.decoders.reference_p import plain_backend, reference_p
from autoqec.envs.environment import Environment
from autoqec.envs.problem import DecodingProblem
from autoqec.errors import InputError
from autoqec.eval import report
from autoqec.eval.ablations import variants
from autoqec.eval.bundles import Bundle, load_bundle, open_bundle
from autoqec.eval.composition import read_composition
from autoqec.eval.evaluation import Evaluation
from autoqec.eval.guards import guards
from autoqec.eval.guards.more_rounds import LARGEST, PROBLEM, longer
from autoqec.eval.ledger import Ledger, Share, family_of
from autoqec.eval.model_code import check_base
from autoqec.eval.options import VerifyOptions
from autoqec.eval.schema import VerifyReport
from autoqec.eval.secret import Secret
from autoqec.eval.subject import Subject, read_subject
from autoqec.eval.verification_state import VerificationState
from autoqec.eval.verifier_pool import VerifierPool
from autoqec.eval.verifier_worker import WorkerSetup
from autoqec.io.hashing import sha256_bytes
from autoqec.layout import RoundDir, VerifierDir
from autoqec.sandbox.kernel_cache import ensure_compiled
from autoqec.sandbox.tiers import strongest
from autoqec.stats.sequential import confirmation_alpha

__all__ = ["VerifyOptions", "verify", "verify_together"]


def verify(round_dir: str | Path, env: Environment, options: VerifyOptions | None = None) -> VerifyReport:
    """The report on the checkpoint in `round_dir`, written there as verification_report.json and .md.

    Raises:
        InputError: the checkpoint, the environment or an option cannot be used; nothing is written then.
    """
    return verify_together([round_dir], env, options)[0]


def verify_together(
    round_dirs: Sequence[str | Path], env: Environment, options: VerifyOptions | None = None
) -> list[VerifyReport]:
    """Reports from one bundle on a compose round's child, given first, and its parents.

    The child's report is the claim: it alone is written, spends alpha, and says whether it composes. Those of the parents
    are beside it for comparison, and claim nothing.
    """
    return _Verification(env, options or VerifyOptions()).run([Path(each) for each in round_dirs])


class _Verification:
    def __init__(self, env: Environment, options: VerifyOptions) -> None:
        self.env, self.options = env, options
        self.home = VerifierDir(options.home)
        self.ledger = Ledger(self.home)
        self.tier = strongest()
        self.begin = time.monotonic()

    def run(self, round_dirs: Sequence[Path]) -> list[VerifyReport]:
        self._check(round_dirs)
        env, options = self.env, self.options
        subjects = [read_subject(path, env, self.tier, self.home, options.repo) for path in round_dirs]
        for subject in subjects:
            check_base(subject.code, options.base)
        archived = load_bundle(env, self.home.bundles, options.bundle) if options.bundle else None
        self.home.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        secret = Secret.of(self.home.secret)
        at = reference_p(env)
        problems = {p: env.built_problem(p) for p in env.spec.noise.p}
        further = self._longer(at, problems[at])
        setup = self._setup(subjects, problems, further, secret)
        ensure_compiled()
        keys = [str(index) for index in range(len(subjects))]
        with ExitStack() as stack:
            pool = stack.enter_context(VerifierPool(setup, options.workers))
            nominal = Share(None, confirmation_alpha(options.confirmations))
            bundle, share = (archived, nominal) if archived else self._open(subjects)
            stack.callback(_discard, bundle)
            shares = [share if bundle.kind == "confirm" else nominal, *[nominal] * (len(subjects) - 1)]
            evaluation = Evaluation(env, options, pool, bundle, secret, at, problems, plain_backend(env))
            evidence = evaluation.confirm(keys, [each.alpha for each in shares])
            verifications = [
                VerificationState(
                    key=key,
                    subject=subject,
                    env=env,
                    options=options,
                    secret=secret,
                    bundle=bundle,
                    reference_p=at,
                    plain=evaluation.plain,
                    problems=problems,
                    tally=evaluation.tally,
                    evidence=found,
                    longer=None if further is None else further[0],
                    ablation_shots=evaluation.ablation_shots(key),
                )
                for key, subject, found in zip(keys, subjects, evidence, strict=True)
            ]
            answers = evaluation.finish(verifications, guards())
            identity = bundle.seal(self.home.bundles)
        reports = [
            report.assemble(
                verification,
                answers[verification.key],
                evaluation,
                bundle_id=identity,
                tier=self.tier,
                share=share,
                no_claim=_no_claim(bundle, archived is not None, is_parent=index > 0),
                seconds=time.monotonic() - self.begin,
            )
            for index, (verification, share) in enumerate(zip(verifications, shares, strict=True))
        ]
        if len(reports) > 1:
            reports[0] = self._composed(reports, round_dirs)
        text = report.as_json(reports[0])
        family = family_of(round_dirs[0])
        facts = {"checkpoint": subjects[0].sha256, "bundle": identity, "kind": bundle.kind, "family": family}
        self.ledger.add("judged", verdict=reports[0].verdict, report=sha256_bytes(text.encode()), **facts)
        if options.write:
            report.write(round_dirs[0], reports[0])
        return reports

    def _check(self, round_dirs: Sequence[Path]) -> None:
        """Refuses bad options before anything is read or written."""
        if not round_dirs or len({path.resolve() for path in round_dirs}) != len(round_dirs):
            raise InputError("no round, or one given twice", where="round_dir", hint="give each once")
        files = RoundDir(round_dirs[0])
        if self.options.write and files.path.is_dir():
            blocked = [path for path in (files.report, files.report_text) if path.is_dir()]
            if blocked or not os.access(files.path, os.W_OK):
                raise InputError(
                    "a report cannot be written here",
                    where=str(blocked[0] if blocked else files.path),
                    hint="make room for it: the verification would be spent without one",
                )
        self.options.ceiling(self.env)
        confirmation_alpha(self.options.confirmations)

    def _longer(self, at: float, problem: DecodingProblem) -> tuple[Environment, DecodingProblem] | None:
        further = longer(self.env)
        if further is None or 2 * problem.n_faults > LARGEST:
            return None
        return further, further.built_problem(at)

    def _setup(
        self,
        subjects: Sequence[Subject],
        problems: dict[float, DecodingProblem],
        further: tuple[Environment, DecodingProblem] | None,
        secret: Secret,
    ) -> WorkerSetup:
        named = {repr(p): problem for p, problem in problems.items()}
        if further is not None:
            named[PROBLEM] = further[1]
        models = {
            f"{index}/{form}": spec
            for index, subject in enumerate(subjects)
            for form, spec in variants(subject, secret.seed("ablation", "", subject.sha256, 0)).items()
        }
        return WorkerSetup(
            problems=named,
            models=models,
            backend=self.env.spec.classical_backend,
            tier=self.tier.name,
            lifetime_s=self.options.deadline_s,
        )

    def _open(self, subjects: Sequence[Subject]) -> tuple[Bundle, Share]:
        """A fresh bundle, and what the confirmation of the first subject may spend on it.

        The checkpoints are in the ledger before the bundle's name, on which all its seeds depend, exists.
        """
        checkpoints = [subject.sha256 for subject in subjects]
        self.ledger.add("registered", checkpoints=checkpoints)
        labels = self.options.labels(self.env)
        bundle = open_bundle(self.env, self.options.kind, self.home.bundles, labels, checkpoints)
        share = self.ledger.open(
            family_of(subjects[0].round_dir),
            checkpoints[0],
            kind=bundle.kind,
            confirmations=self.options.confirmations,
            name=bundle.name,
            env=self.env.content_hash,
            parents=checkpoints[1:],
        )
        return bundle, share

    def _composed(self, reports: Sequence[VerifyReport], round_dirs: Sequence[Path]) -> VerifyReport:
        child, *parents = (made.delta_ler_holdout for made in reports)
        names = [path.name for path in round_dirs[1:]]
        reading = read_composition(child, parents, names, threshold=self.options.threshold)
        return reports[0].model_copy(update={"composition": reading})


def _discard(bundle: Bundle) -> None:
    """Removes what an interrupted verification sampled; a sealed bundle stays."""
    if bundle.fresh:
        shutil.rmtree(bundle.folder, ignore_errors=True)


def _no_claim(bundle: Bundle, archived: bool, *, is_parent: bool) -> str | None:
    if is_parent:
        return "evaluated beside its child: its own verification decides about it"
    if bundle.kind == "confirm":
        return "this confirm bundle was used before and supports no new claim" if archived else None
    return f"a{'n' if bundle.kind == 'estimate' else ''} {bundle.kind} bundle supports no claim"
