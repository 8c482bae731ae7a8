"""Everything that the files of one round hold, read once, for the causes to look at."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.errors import AutoQECError
from autoqec.io.hashing import sha256_file
from autoqec.io.locks import is_held
from autoqec.io.validate import validate_model
from autoqec.layout import RoundDir, RunDir
from autoqec.report.diagnose import patch, surroundings
from autoqec.report.diagnose.finding import Evidence, Patch
from autoqec.report.diagnose.loss_curve import LossCurve
from autoqec.report.diagnose.surroundings import Surroundings
from autoqec.report.reading import Gaps, Row, json_of, quote, real, text_of, yaml_of
from autoqec.runner.schema import Fact, FailureKind, RoundMetrics
from autoqec.search.analyst import gains

NO_CONFIG = ("compose_conflict", "orphaned_branch", "branch_manually_deleted")
"""Statuses of rounds that need have no config, nor, in older runs, a folder."""


@dataclass(frozen=True)
class RoundCase:
    """metrics: from metrics.json, else from the history row, as `source` says. attempt: that history or the journal knows.

    config: as it was written, valid or not. output: lines of runner.log. in_flight: the run has a journal of it.
    running: a process is at work on it.
    """

    files: RoundDir
    number: int | None
    metrics: RoundMetrics | None
    source: str
    row: Row | None
    config: Row | None
    curve: LossCurve
    output: tuple[str, ...]
    manifest: Row | None
    attempt: str | None
    in_flight: bool
    running: bool
    around: Surroundings
    gaps: tuple[str, ...] = ()
    is_torn: bool = field(default=False)

    @property
    def figures(self) -> dict[str, Any]:
        """The metrics as plain values; empty where there are none."""
        return {} if self.metrics is None else self.metrics.model_dump()

    @property
    def status(self) -> str | None:
        return None if self.metrics is None else self.metrics.status

    @property
    def kind(self) -> FailureKind | None:
        """None for a round that did not fail, and for those of older runs."""
        return None if self.metrics is None else self.metrics.failure_kind

    @property
    def facts(self) -> Mapping[str, Fact]:
        """The figures behind the failure; empty where there are none."""
        return {} if self.metrics is None else self.metrics.failure_facts or {}

    @property
    def gains(self) -> bool:
        return gains(self.figures)

    @property
    def dsl(self) -> PredecoderDSL | None:
        try:
            return None if self.config is None else PredecoderDSL.model_validate(self.config)
        except ValidationError:
            return None

    def metric(self, *names: str) -> Iterator[Evidence]:
        """These fields of the metrics, where they have a value."""
        figures = self.figures
        for name in names:
            if (value := figures.get(name)) is not None:
                yield Evidence(f"{self.source}: {name}", quote(value) if isinstance(value, str) else value)

    def option(self, path: str) -> Evidence:
        return Evidence(f"config.yaml: {path}", self.value(path))

    def value(self, path: str) -> Any:
        """An option of the config, defaults included."""
        dsl = self.dsl
        return patch.get(patch.options(dsl) if dsl is not None else self.config or {}, path)

    def suggest(self, **wanted: Any) -> Patch | None:
        """The config with other options; `training__batch_size=64` is the path `training.batch_size`."""
        if self.config is None:
            return None
        return patch.patch(self.config, {path.replace("__", "."): value for path, value in wanted.items()})

    def cheaper(self) -> Patch | None:
        """The same mechanism with half of what it computes per shot."""
        for path in ("neural_bp.iterations", "gnn.layers", "gnn.hidden_dim"):
            size = self.value(path)
            if isinstance(size, int) and size > 1:
                found = self.suggest(**{path.replace(".", "__"): size // 2})
                if found is not None:
                    return found
        return None

    def tail(self, lines: int = 1) -> Iterator[Evidence]:
        """The last lines of the output, to show."""
        for line in range(max(len(self.output) - lines, 0), len(self.output)):
            yield Evidence(f"runner.log:{line + 1}", quote(self.output[line]))

    def at_reference(self) -> Row:
        """The row of `per_p` that the headline was taken from; empty where there is none."""
        figures = self.figures
        rows = [row for row in figures.get("per_p") or [] if isinstance(row, dict)]
        return next((row for row in rows if row.get("p") == figures.get("reference_p")), {})

    def shots(self) -> int:
        return int(real(self.at_reference().get("shots")) or 0)

    def artifacts_changed(self) -> list[str]:
        """Names of files that differ from what the round's manifest recorded."""
        recorded = (self.manifest or {}).get("artifacts")
        if not isinstance(recorded, dict):
            return []
        changed = []
        for path in (self.files.config, self.files.train_log, self.files.checkpoint, self.files.metrics):
            if path.name in recorded:
                is_same = path.is_file() and sha256_file(path) == recorded[path.name]
                if not is_same:
                    changed.append(path.name)
        return changed

    def idle_s(self) -> float | None:
        """Seconds since a file of the round was written."""
        times = [path.stat().st_mtime for path in self.files.path.iterdir() if path.is_file()]
        return max(time.time() - max(times), 0.0) if times else None


def read_case(
    files: RoundDir, *, row: Row | None = None, run: RunDir | None = None, around: Surroundings | None = None
) -> RoundCase:
    """run, row: of the run that the round belongs to and of its history, where it has one."""
    gaps: Gaps = []
    has_folder = files.path.is_dir()
    expected = has_folder or (row or {}).get("status") not in NO_CONFIG
    if not has_folder and expected:
        gaps.append(f"the folder {files.path.name} is missing")
    metrics, source = _metrics(files, row, gaps, needed=has_folder)
    had_config = metrics is None or metrics.status not in NO_CONFIG
    config = yaml_of(files.config, gaps, needed=has_folder and had_config)
    manifest = json_of(files.manifest, gaps, needed=False)
    log = text_of(files.train_log, gaps, needed=metrics is not None and metrics.status == "ok") or ""
    curve = LossCurve.parse(log)
    if curve.broken:
        gaps.append(f"train.log:{curve.broken[0]} is not <step> <loss>; {len(curve.broken)} such lines")
    output = (text_of(files.output, gaps, needed=False) or "").splitlines()
    number = _number(files)
    journal = json_of(run.journal(number), gaps, needed=False) if run and number is not None else None
    attempt = (row or journal or {}).get("round_attempt_id")
    if config is None:  # killed before it was written: what the loop meant to train
        config = next(
            (
                c
                for c in ((row or {}).get("dsl_config"), (journal or {}).get("config"))
                if isinstance(c, dict)
            ),
            None,
        )
    return RoundCase(
        files=files,
        number=number,
        metrics=metrics,
        source=source,
        row=row,
        config=config,
        curve=curve,
        output=tuple(output),
        manifest=manifest,
        attempt=attempt if isinstance(attempt, str) else None,
        in_flight=journal is not None,
        running=run is not None and number is not None and is_held(run.guard(number)),
        around=around if around is not None else surroundings.of_round(files, manifest),
        gaps=tuple(gaps),
        is_torn=files.metrics.exists() and source != files.metrics.name,
    )


def _metrics(
    files: RoundDir, row: Row | None, gaps: Gaps, *, needed: bool
) -> tuple[RoundMetrics | None, str]:
    for source, data in (
        (files.metrics.name, json_of(files.metrics, gaps, needed=needed)),
        ("history.jsonl", row),
    ):
        if data is None:
            continue
        try:
            return validate_model(data, RoundMetrics, where=source), source
        except AutoQECError as error:
            gaps.append(f"{source} breaks the rules of a round's metrics: {quote(error)}")
    return None, "no metrics"


def _number(files: RoundDir) -> int | None:
    text = files.path.name.removeprefix("round_")
    return int(text) if text != files.path.name and text.isdecimal() else None
