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
from dataclasses import replace
from pathlib import Path

from autoqec.decoders.reference_p import plain_backend
from autoqec.envs.environment import Environment
from autoqec.envs.problem import DecodingProblem
from autoqec.errors import InputError
from autoqec.eval import report
from autoqec.eval.ablations import variants
from autoqec.eval.bundles import Bundle, load_bundle, new_name, open_bundle
from autoqec.eval.composition import read_composition
from autoqec.eval.evaluation import Evaluation
from autoqec.eval.family import lone_family, run_family
from autoqec.eval.guards import guards, replay
from autoqec.eval.guards.more_rounds import LARGEST, PROBLEM, longer
from autoqec.eval.kernel_store import KernelStore
from autoqec.eval.ledger import Draw, Ledger, Share
from autoqec.eval.model_code import check_base
from autoqec.eval.options import VerifyOptions
from autoqec.eval.schema import Estimate, VerifyReport
from autoqec.eval.secret import Secret
from autoqec.eval.subject import Subject, checkpoint_bytes, read_subject
from autoqec.eval.tally import Tally
from autoqec.eval.tasks import ReferenceP
from autoqec.eval.verification_state import Estimated, VerificationState
from autoqec.eval.verifier_pool import VerifierPool
from autoqec.eval.worker_setup import WorkerSetup
from autoqec.io.hashing import sha256_bytes
from autoqec.layout import RoundDir, VerifierDir
from autoqec.sandbox.kinds import strongest
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
        self.sandbox = strongest()
        self.begin = time.monotonic()

    def run(self, round_dirs: Sequence[Path]) -> list[VerifyReport]:
        self._check(round_dirs)
        with ExitStack() as stack:
            kernels = stack.enter_context(KernelStore().opened(self.options.progress))
            subjects = [
                read_subject(path, self.env, self.sandbox, self.home, self.options.repo, kernels)
                for path in round_dirs
            ]
            for subject in subjects:
                check_base(subject.code, self.options.base)
            pool = stack.enter_context(VerifierPool(kernels, self.options.workers, self.options.executor))
            reports = self._judged(subjects, pool, stack)
        if self.options.write:
            report.write(round_dirs[0], reports[0])
        return reports

    def _judged(
        self, subjects: Sequence[Subject], pool: VerifierPool, stack: ExitStack
    ) -> list[VerifyReport]:
        env, options = self.env, self.options
        family = _family(subjects[0])
        archived = load_bundle(env, self.home.bundles, options.bundle) if options.bundle else None
        self.home.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        secret = Secret.of(self.home.secret)
        (at,) = pool.run([ReferenceP(env.spec.model_dump_json(), str(env.root))])
        problems = {p: env.built_problem(p) for p in env.spec.noise.p}
        further = self._longer(at, problems[at])
        pool.equip(self._setup(subjects, problems, further, secret))
        keys = [str(index) for index in range(len(subjects))]
        nominal = Share(None, confirmation_alpha(options.confirmations))
        bundle, share = (archived, nominal) if archived else self._open(subjects, family)
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

        def assembled(
            index: int, estimate: Estimate | None = None, estimated: Tally | None = None
        ) -> VerifyReport:
            return report.assemble(
                verifications[index],
                answers[keys[index]],
                evaluation,
                bundle_id=identity,
                sandbox=self.sandbox,
                share=shares[index],
                no_claim=_no_claim(bundle, archived is not None, is_parent=index > 0),
                seconds=time.monotonic() - self.begin,
                estimate=estimate,
                estimated=estimated,
            )

        reports = [assembled(index) for index in range(len(subjects))]
        if reports[0].verdict == "VERIFIED":
            found, estimated = self._estimate(verifications[0], evaluation, family, stack)
            verifications[0] = replace(verifications[0], estimated=estimated)
            reports[0] = assembled(0, found, estimated.tally)
            if reports[0].verdict != "VERIFIED":  # another decoder's figures
                reports[0] = assembled(0)
        if len(reports) > 1:
            reports[0] = self._composed(reports, [subject.round_dir for subject in subjects])
        self._enter(reports[0], identity, bundle.kind, family, shares[0])
        return reports

    def _estimate(
        self, verification: VerificationState, evaluation: Evaluation, family: str, stack: ExitStack
    ) -> tuple[Estimate, Estimated]:
        """The size of a verified round's effect, on the one bundle that is ever drawn for it, and its scores."""
        bundle = self._estimate_bundle(verification.subject, family)
        stack.callback(_discard, bundle)
        # Foreign code in processes that were asked nothing yet, as the test was: a model learns little of which it is, and guards' work is
        # not charged to it. This package's own keeps nothing, and a process takes seconds to start.
        if verification.subject.holds_code:
            evaluation.pool.renew()
        again = replace(evaluation, bundle=bundle, tally=Tally())
        scored = again.estimate(verification.key, replay.of_the_main_test(verification))
        measured = replace(verification, bundle=bundle, tally=again.tally)
        made = report.estimate_of(measured, again, bundle.seal(self.home.bundles))
        return made, Estimated(again.tally, scored)

    def _estimate_bundle(self, subject: Subject, family: str) -> Bundle:
        wanted = Draw(
            new_name(self.env, "estimate"), self.options.floor(self.env), self.options.labels(self.env)
        )
        drawn = self.ledger.draw_estimate(family, subject.sha256, self.env.content_hash, wanted)
        if self.options.kind == "estimate" and self.options.shots and drawn.shots != wanted.shots:
            raise InputError(
                f"the estimate bundle of this checkpoint has {drawn.shots} shots, and is drawn once",
                where="--shots",
                hint="leave it out",
            )
        folder, checkpoints = self.home.bundles, [subject.sha256]
        bundle = open_bundle(self.env, "estimate", folder, drawn.labels, checkpoints, drawn.name)
        bundle.fixed = drawn.shots
        return bundle

    def _enter(self, made: VerifyReport, identity: str, kind: str, family: str, share: Share) -> None:
        """The last row of a verification: what was judged, by which report."""
        facts = {
            "checkpoint": made.checkpoint_sha256,
            "bundle": identity,
            "kind": kind,
            "family": family,
            "opening": share.opening,
            "estimate": None if made.estimate is None else made.estimate.bundle,
        }
        digest = sha256_bytes(report.as_json(made).encode())
        self.ledger.add("judged", verdict=made.verdict, report=digest, **facts)

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
        for path in round_dirs:
            checkpoint_bytes(path)
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
            sandbox=self.sandbox.name,
            lifetime_s=self.options.deadline_s * (1 if subjects[0].holds_code else 2),  # test and estimate
        )

    def _open(self, subjects: Sequence[Subject], family: str) -> tuple[Bundle, Share]:
        """A fresh bundle, and what the confirmation of the first subject may spend on it.

        The checkpoints are in the ledger before the bundle's name, on which all its seeds depend, exists.
        """
        kind, checkpoints = self.options.kind, [subject.sha256 for subject in subjects]
        self.ledger.add("registered", checkpoints=checkpoints)
        if kind == "estimate":
            return self._estimate_bundle(subjects[0], family), Share(None, 0.0)
        labels, name = self.options.labels(self.env), new_name(self.env, kind)
        bundle = open_bundle(self.env, kind, self.home.bundles, labels, checkpoints, name)
        share = self.ledger.open(
            family,
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


def _family(subject: Subject) -> str:
    """What shares the plan of confirmations with a subject."""
    branch = subject.branch if subject.code.commit is not None else None
    return run_family(subject.round_dir, branch, subject.env_hash) or lone_family(
        subject.env_hash, subject.dsl, subject.seed
    )


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
