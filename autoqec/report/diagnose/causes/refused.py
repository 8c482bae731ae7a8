"""Causes for which a round never trains: the config, the environment, its backend or the machine does not allow it."""

from __future__ import annotations

from autoqec.decoders.dsl_schema import GnnSpec, PredecoderDSL
from autoqec.errors import AutoQECError
from autoqec.report.diagnose import patch
from autoqec.report.diagnose.case import RoundCase
from autoqec.report.diagnose.causes.limits import find_timeout
from autoqec.report.diagnose.finding import Change, Evidence, Finding, Patch
from autoqec.report.reading import quote
from autoqec.runner.schema import FailureKind

LARGE = 1000
"""Faults from which ordered statistics is the wrong tool for a problem that matching solves exactly: its elimination grows with
the cube of the checks."""

_BACKEND = "classical_backend"
_CUSTOM_DEFAULTS = {
    "gnn.message_fn": GnnSpec.model_fields["message_fn"].default,
    "gnn.aggregation": GnnSpec.model_fields["aggregation"].default,
    "head": PredecoderDSL.model_fields["head"].default,
}
_CONFIG_KINDS: tuple[FailureKind, ...] = (
    "config_invalid",
    "code_refused",
    "code_failed",
    "loss_unsupported",
    "input_refused",
)
_WITHOUT_CONFIG = (
    "the round never had a config that could be trained",
    "propose it again with a config that autoqec cost accepts",
)
_BEFORE_TRAINING: dict[FailureKind, tuple[str, str]] = {
    "out_of_scope": (
        "the branch changes files that a round may not change",
        "start over from the parent without touching the named paths: a round may change model modules and its config",
    ),
    "repeat": ("the round repeats an earlier one", "propose a config that computes something else"),
    "role_failed": _WITHOUT_CONFIG,
    "given_up": _WITHOUT_CONFIG,
}
_MACHINE: dict[FailureKind, tuple[str, str]] = {
    "no_sandbox": (
        "no sandbox works on this machine, and code that is not the installed package's own runs nowhere else",
        "see autoqec doctor for the sandbox, or use a tier-1 config and no edited modules",
    ),
    "missing_library": (
        "a library is missing or broken",
        "install what the reason names; autoqec doctor lists all parts",
    ),
    "disk_full": ("the disk is full", "free some space and run the round again"),
    "gpu_error": (
        "the GPU or its driver failed",
        "see autoqec doctor; CUDA_VISIBLE_DEVICES='' runs the round on the CPU",
    ),
    "not_writable": ("a folder cannot be written", "make the folder that the reason names writable"),
}


def find_machine_error(case: RoundCase) -> Finding | None:
    """This machine cannot run the round: a library, a sandbox, a driver or disk space is missing."""
    if case.kind is None or case.kind not in _MACHINE:
        return None
    what, advice = _MACHINE[case.kind]
    return Finding("high", what, (*case.metric("status", "status_reason"), *case.tail()), advice)


def find_wrong_backend(case: RoundCase) -> Finding | None:
    """The environment's classical backend does not fit its code: matching without a graph, or ordered statistics on a large one."""
    found = _backend_refused(case)
    return found if found is not None or case.gains else _poor_backend(case) or _heavy_backend(case)


def find_environment_error(case: RoundCase) -> Finding | None:
    """The environment cannot be built, or is not the one that the round was trained in."""
    return _cannot_be_built(case) or _is_another(case)


def find_compile_error(case: RoundCase) -> Finding | None:
    """The config was refused: it breaks the DSL, its custom code breaks the rules, or its branch changes too much."""
    evidence = [*case.metric("status", "status_reason")]
    if case.kind in _BEFORE_TRAINING:
        what, advice = _BEFORE_TRAINING[case.kind]
        return Finding("high", what, tuple(evidence), advice)
    is_old = case.kind is None and case.status == "compile_error" and not _environment_problems(case)
    if case.kind not in _CONFIG_KINDS and not is_old:
        return None
    if case.config is None:
        return Finding("high", _WITHOUT_CONFIG[0], tuple(evidence), _WITHOUT_CONFIG[1])
    suggestion = _suggestion(case)
    changes = suggestion.changes if suggestion is not None else ()
    evidence += [Evidence(f"config.yaml: {change.field}", quote(change.before)) for change in changes]
    fields = ", ".join(change.field for change in changes) or "what the reason names"
    return Finding(
        "low" if is_old and case.dsl is not None else "high",
        "the config was refused before training",
        tuple(evidence),
        f"change {fields} and nothing else",
        suggestion,
    )


def _suggestion(case: RoundCase) -> Patch | None:
    config, dsl = case.config or {}, case.dsl
    if dsl is None:
        return patch.repaired(config)
    if case.kind == "loss_unsupported":
        return case.suggest(training__loss="bce")
    where = f"{case.figures.get('failure_where')}."
    named = [path for path in dsl.custom_functions if where.startswith(f"{path}.")]
    return patch.patch(config, {path: _CUSTOM_DEFAULTS[path] for path in named or dsl.custom_functions})


def _environment_problems(case: RoundCase) -> list[AutoQECError]:
    """Why the environment cannot be used today, if it cannot."""
    return [
        problem for problem in (case.around.loaded, case.around.built) if isinstance(problem, AutoQECError)
    ]


def _cannot_be_built(case: RoundCase) -> Finding | None:
    evidence: list[Evidence] = []
    if case.kind == "environment_invalid":
        evidence += case.metric("status", "status_reason")
    for problem in _environment_problems(case):
        if problem.where != _BACKEND:
            evidence.append(Evidence(f"{case.around.source}: env {quote(case.around.name)}", quote(problem)))
    if not evidence:
        return None
    return Finding(
        "high",
        "the environment itself cannot be used, whatever the config",
        tuple(evidence),
        "correct the named field or file of the environment, then check it with autoqec env validate",
    )


def _is_another(case: RoundCase) -> Finding | None:
    recorded = (case.manifest or {}).get("env_hash")
    now = case.around.content_hash
    if case.around.has_changed:
        evidence = Evidence(f"{case.around.source}: env_yaml_sha256", case.around.yaml_sha256)
    elif isinstance(recorded, str) and now is not None and recorded != now:
        evidence = Evidence("artifact_manifest.json: env_hash", f"{quote(recorded, 64)}, and now {now}")
    else:
        return None
    return Finding(
        "high",
        "the environment is not the one that this round was trained in, so its figures cannot be compared",
        (evidence,),
        "change the environment back, or start another run",
    )


def _backend_refused(case: RoundCase) -> Finding | None:
    evidence: list[Evidence] = []
    if case.kind == "backend_unfit":
        evidence += case.metric("status", "status_reason")
    for problem in _environment_problems(case):
        if problem.where == _BACKEND:
            evidence.append(Evidence(f"environment: {_BACKEND}", quote(problem.what)))
    if not evidence:
        return None
    return Finding(
        "high",
        "faults of this noise model flip more than two detectors, so matching cannot decode it",
        tuple(evidence),
        f"set {_BACKEND}: osd in the environment file; no config can fix this",
        env_change=Change(_BACKEND, "mwpm", "osd"),
    )


def _poor_backend(case: RoundCase) -> Finding | None:
    env, problem = case.around.env, case.around.problem
    if env is None or problem is None or env.spec.classical_backend != "mwpm" or problem.is_matchable:
        return None
    weights = problem.h.sum(axis=0)
    return Finding(
        "medium",
        "faults flip more than two detectors of one basis: matching runs on their decomposition and decodes them poorly",
        (
            Evidence("environment: maximum number of detectors that a fault flips", int(weights.max())),
            Evidence("environment: faults that flip more than two", int((weights > 2).sum())),
            Evidence("environment: faults", problem.n_faults),
        ),
        f"set {_BACKEND}: osd in the environment file, and compare both with autoqec baseline",
        env_change=Change(_BACKEND, "mwpm", "osd"),
    )


def _heavy_backend(case: RoundCase) -> Finding | None:
    env, problem = case.around.env, case.around.problem
    if env is None or problem is None or env.spec.classical_backend != "osd":
        return None
    if problem.n_faults < LARGE or not problem.is_matchable:
        return None
    timed = case.at_reference().get("us_per_shot_plain")
    evidence = [
        Evidence(f"environment: {_BACKEND}", "osd"),
        Evidence("environment: faults, each of at most two detectors", problem.n_faults),
        Evidence("environment: detectors", problem.n_checks),
    ]
    if timed is not None:
        evidence.append(Evidence(f"{case.source}: per_p us_per_shot_plain", timed))
    return Finding(
        "high" if find_timeout(case) is not None else "medium",
        "every fault flips at most two detectors: matching solves this exactly and far faster than ordered statistics",
        tuple(evidence),
        f"set {_BACKEND}: mwpm in the environment file, and compare both with autoqec baseline",
        env_change=Change(_BACKEND, "osd", "mwpm"),
    )
