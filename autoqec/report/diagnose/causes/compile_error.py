"""The config was refused: it breaks the DSL, its custom code breaks the rules, or its branch changes too much."""

from __future__ import annotations

import re

from autoqec.decoders.dsl_schema import GnnSpec, PredecoderDSL
from autoqec.report.diagnose import patch
from autoqec.report.diagnose.case import RoundCase
from autoqec.report.diagnose.causes import environment_error, machine_error
from autoqec.report.diagnose.finding import Evidence, Finding, Patch
from autoqec.report.reading import quote

_SCOPE = re.compile(r"the branch changes what a round may not change")
_DEFAULTS = {
    "gnn.message_fn": GnnSpec.model_fields["message_fn"].default,
    "gnn.aggregation": GnnSpec.model_fields["aggregation"].default,
    "head": PredecoderDSL.model_fields["head"].default,
}


def find(case: RoundCase) -> Finding | None:
    if case.status != "compile_error" or environment_error.blames(case.reason) or machine_error.find(case):
        return None
    evidence = [*case.metric("status", "status_reason")]
    if _SCOPE.search(case.reason):
        advice = "start over from the parent without touching the named paths: a round may change model modules and its config"
        return Finding(
            "high", "the branch changes files that a round may not change", tuple(evidence), advice
        )
    if case.config is None:
        return Finding(
            "high",
            "the round never had a config that could be trained",
            tuple(evidence),
            "propose it again with a config that autoqec cost accepts",
        )
    suggestion = _suggestion(case)
    for change in suggestion.changes if suggestion is not None else ():
        evidence.append(Evidence(f"config.yaml: {change.field}", quote(change.before)))
    fields = (
        ", ".join(change.field for change in suggestion.changes) if suggestion else "what the reason names"
    )
    return Finding(
        "high",
        "the config was refused before training",
        tuple(evidence),
        f"change {fields} and nothing else",
        suggestion,
    )


def _suggestion(case: RoundCase) -> Patch | None:
    config, dsl = case.config or {}, case.dsl
    if dsl is None:
        return patch.repaired(config)
    if case.reason.startswith("training.loss: backend_gap"):
        return case.suggest(training__loss="bce")
    named = [path for path in dsl.custom_functions if re.match(rf"{re.escape(path)}\b", case.reason)]
    return patch.patch(config, {path: _DEFAULTS[path] for path in named or dsl.custom_functions})
