"""Every error gets its kind in one place, and every kind has one status."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
import torch

from autoqec.decoders.custom.errors import CustomCodeError
from autoqec.errors import InputError, UnavailableError
from autoqec.runner.failure_kinds import RoundFailed, failing_as, failure_of, kind_of
from autoqec.runner.schema import Failure, FailureKind, RoundMetrics


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ModuleNotFoundError("No module named 'numba'"), "missing_library"),
        (UnavailableError("ldpc is not installed"), "missing_library"),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "disk_full"),
        (PermissionError(errno.EACCES, "no"), "not_writable"),
        (OSError(errno.EROFS, "no"), "not_writable"),
        (OSError(errno.ENOMEM, "no"), "out_of_memory"),
        (FileNotFoundError(errno.ENOENT, "no"), "unknown"),
        (MemoryError(), "out_of_memory"),
        (torch.OutOfMemoryError("CUDA out of memory"), "out_of_memory"),
        (RuntimeError("MPS backend out of memory (MPS allocated: 1 GB)"), "out_of_memory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), "out_of_memory"),
        (torch.AcceleratorError("an illegal memory access was encountered"), "gpu_error"),
        (RuntimeError("Found no NVIDIA driver on your system"), "gpu_error"),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), "unknown"),
        (ValueError("out of memory"), "unknown"),
        (InputError("no graph", where="classical_backend"), "backend_unfit"),
        (InputError("two observables", where="training.loss"), "loss_unsupported"),
        (InputError("out of memory", where="noise.p"), "unknown"),
        (CustomCodeError("import", "no", where="head", hint="h", line=3), "code_refused"),
        (CustomCodeError("runtime", "no", where="head", hint="h"), "code_failed"),
    ],
)
def test_the_kind_of_an_error(error: Exception, kind: FailureKind) -> None:
    assert kind_of(error) == kind
    assert RoundMetrics.model_validate(failure_of(error).metrics()).failure_kind == kind


def test_torchs_own_error_for_a_batch_that_no_machine_holds() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**60)
    assert kind_of(caught.value) == "out_of_memory"


def test_the_stage_names_what_an_error_does_not_tell() -> None:
    with pytest.raises(RoundFailed) as caught, failing_as("environment_invalid"):
        raise InputError("is empty", where="noise.p", hint="give some")
    failure = caught.value.failure
    assert (failure.kind, failure.where, failure.hint) == ("environment_invalid", "noise.p", "give some")
    with pytest.raises(RoundFailed) as caught, failing_as("config_invalid"):
        raise CustomCodeError("import", "no", where="gnn.message_fn", hint="h", line=3)
    assert (caught.value.failure.kind, caught.value.failure.where) == ("code_refused", "gnn.message_fn")


@pytest.mark.parametrize("kind", get_args(FailureKind))
def test_every_kind_has_a_status_and_survives_its_file(kind: FailureKind) -> None:
    facts = {"certain": True, "limit_s": 8.0, "signal": 9, "paths": "a, b"}
    failure = Failure(kind, "why", "a.b", "do", facts)
    row = failure.metrics() | {"round_attempt_id": "a"}
    if kind == "compose_conflict":
        row["conflicting_files"] = []
    metrics = RoundMetrics.model_validate(row)
    again = RoundMetrics.model_validate_json(metrics.model_dump_json())
    assert again == metrics
    assert {name: type(fact) for name, fact in (again.failure_facts or {}).items()} == {
        name: type(fact) for name, fact in facts.items()
    }


def test_a_library_that_is_missing_in_the_rounds_process_is_a_kind(tmp_path: Path) -> None:
    result, job = tmp_path / "metrics.json", tmp_path / "job.json"
    job.write_text(json.dumps({"result": str(result)}))
    code = "import sys; sys.modules['torch'] = None; from autoqec.runner.child import main; main()"
    # The child ends its process group when standard input does.
    with subprocess.Popen(
        [sys.executable, "-c", code, str(job)],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stderr is not None
        output = process.stderr.read()
    metrics = RoundMetrics.model_validate_json(result.read_text())
    assert (metrics.status, metrics.failure_kind) == ("train_error", "missing_library")
    assert "Traceback" in output
