"""Every cause, on a real round that suffers from it."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from broken_rounds import BP, GNN, env_of, training

from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.envs.environment import Environment
from autoqec.envs.load import load_env
from autoqec.errors import InputError
from autoqec.layout import RoundDir
from autoqec.report.diagnose import Diagnosis, Finding, diagnose_round
from autoqec.report.diagnose.patch import get, options
from autoqec.runner.schema import Failure
from autoqec.sandbox.kinds import strongest

pytestmark = pytest.mark.slow


def _root(diagnosis: Diagnosis, cause: str) -> Finding:
    assert diagnosis.cause == cause, diagnosis.to_dict()
    return diagnosis.findings[cause]


def _says(finding: Finding, *parts: str) -> None:
    lines = [str(evidence) for evidence in finding.evidence]
    for part in parts:
        assert any(part in line for line in lines), (part, lines)


def _patched(folder: Path, finding: Finding, field: str) -> Any:
    """The value that the suggested config has at `field`: it is valid, and differs there from the round's config."""
    assert finding.patch is not None
    assert field in [change.field for change in finding.patch.changes]
    new = get(options(PredecoderDSL.model_validate(finding.patch.config)), field)
    assert new != get(yaml.safe_load((folder / "config.yaml").read_text()), field)
    assert finding.patch.diff
    return new


def test_a_config_that_breaks_the_dsl(broken) -> None:
    folder = broken({**BP, "neural_bp": {"iterations": 0}})
    found = _root(diagnose_round(folder), "compile_error")
    assert found.confidence == "high"
    _says(
        found, "metrics.json: status = compile_error", "iterations", "config.yaml: neural_bp.iterations = 0"
    )
    assert _patched(folder, found, "neural_bp.iterations") == 8


def test_custom_code_that_is_refused(broken) -> None:
    code = {
        "type": "custom",
        "code": "def message(x_src, x_dst, e_ij, params):\n    return torch.os.listdir()\n",
    }
    folder = broken({**GNN, "gnn": {"layers": 1, "hidden_dim": 4, "message_fn": code}})
    diagnosis = diagnose_round(folder)
    if not strongest().confines:
        _says(_root(diagnosis, "machine_error"), "sandbox")
        return
    found = _root(diagnosis, "compile_error")
    _says(found, "line 2")
    assert _patched(folder, found, "gnn.message_fn") == "mlp"


def test_a_learning_rate_that_gives_nan(broken) -> None:
    folder = broken(training(BP, epochs=1, batch_size=64, loss="bce", learning_rate=1e30))
    found = _root(diagnose_round(folder), "nan")
    _says(
        found,
        "metrics.json: status = train_error",
        "NaN or infinite in 4 of 5 steps",
        "learning_rate = 1e+30",
        "train.log",
    )
    assert _patched(folder, found, "training.learning_rate") == 1e-3


def _recorded(folder: Path, config: dict[str, Any], **metrics: Any) -> Diagnosis:
    """Of a round whose files are these."""
    files = RoundDir(folder / "round_1")
    files.path.mkdir(exist_ok=True)
    files.metrics.write_text(json.dumps(metrics))
    files.config.write_text(json.dumps(config))
    return diagnose_round(files.path)


@pytest.mark.parametrize(
    ("failure", "cause", "confidence"),
    [
        (Failure("no_sandbox", "x"), "machine_error", "high"),
        (Failure("missing_library", "x"), "machine_error", "high"),
        (Failure("disk_full", "x"), "machine_error", "high"),
        (Failure("not_writable", "x"), "machine_error", "high"),
        (Failure("gpu_error", "x"), "machine_error", "high"),
        (Failure("backend_unfit", "x"), "wrong_backend", "high"),
        (Failure("environment_invalid", "x"), "environment_error", "high"),
        (Failure("config_invalid", "x"), "compile_error", "high"),
        (Failure("out_of_scope", "x"), "compile_error", "high"),
        (Failure("repeat", "x"), "compile_error", "high"),
        (Failure("role_failed", "x"), "compile_error", "high"),
        (Failure("out_of_memory", "x", facts={"certain": True}), "out_of_memory", "high"),
        (Failure("out_of_memory", "x", facts={"certain": False}), "out_of_memory", "medium"),
        (Failure("wall_clock", "x"), "timeout", "high"),
        (Failure("interrupted", "x"), "killed_process", "high"),
        (Failure("killed", "x", facts={"signal": 11}), "killed_process", "high"),
        (Failure("nan_loss", "x"), "nan", "high"),
        (Failure("training_failed", "x"), "unexplained", "low"),
        (Failure("untrusted_metrics", "x"), "unexplained", "low"),
        (Failure("unknown", "x"), "unexplained", "low"),
    ],
)
def test_the_kind_of_a_failure_decides_its_cause(
    tmp_path: Path, failure: Failure, cause: str, confidence: str
) -> None:
    diagnosis = _recorded(tmp_path, BP, **failure.metrics())
    assert list(diagnosis.findings) == [cause]
    assert _root(diagnosis, cause).confidence == confidence


@pytest.mark.parametrize(
    ("status", "cause"),
    [
        ("compile_error", "compile_error"),
        ("killed_by_safety", "unexplained"),
        ("train_error", "unexplained"),
    ],
)
def test_a_record_without_a_kind_is_judged_by_its_status_alone(
    tmp_path: Path, status: str, cause: str
) -> None:
    diagnosis = _recorded(tmp_path, BP, status=status, status_reason="out of memory, interrupted")
    found = _root(diagnosis, cause)
    assert (list(diagnosis.findings), found.confidence) == ([cause], "low")
    _says(found, "out of memory")


@pytest.mark.parametrize("reason", ["NaN rate 0.31 > 0.1", "nan_rate above the limit", "too many NaNs"])
def test_a_round_that_another_runner_stopped_for_its_nan_rate(tmp_path: Path, reason: str) -> None:
    diagnosis = _recorded(tmp_path, BP, status="killed_by_safety", status_reason=reason)
    assert list(diagnosis.findings) == ["nan"]
    _says(_root(diagnosis, "nan"), reason)


@pytest.mark.parametrize("where", ["gnn.message_fn", "gnn.message_fn.params_declared"])
def test_only_the_custom_function_that_was_refused_is_replaced(tmp_path: Path, where: str) -> None:
    functions = {
        "message_fn": {
            "type": "custom",
            "code": "def message(x_src, x_dst, e_ij, params):\n    return x_src\n",
        },
        "aggregation": {
            "type": "custom",
            "code": "def aggregate(messages, edge_index, n_nodes, params):\n    return messages\n",
        },
    }
    config = {**GNN, "gnn": {"layers": 1, "hidden_dim": 4, **functions}}
    found = _root(
        _recorded(tmp_path, config, **Failure("code_refused", "x", where).metrics()), "compile_error"
    )
    assert found.patch is not None
    assert [change.field for change in found.patch.changes] == ["gnn.message_fn"]


def test_a_loss_that_the_backend_cannot_train_is_replaced(tmp_path: Path) -> None:
    failure = Failure("loss_unsupported", "x", "training.loss")
    diagnosis = _recorded(tmp_path, training(BP, loss="backend_gap"), **failure.metrics())
    assert _patched(tmp_path / "round_1", _root(diagnosis, "compile_error"), "training.loss") == "bce"


def test_a_training_that_was_stopped_at_its_time_budget(tmp_path: Path) -> None:
    (tmp_path / "round_1").mkdir()
    (tmp_path / "round_1" / "train.log").write_text("10\t0.5\n")
    (tmp_path / "round_1" / "checkpoint.pt").write_text("")
    metrics = {"status": "ok", "training_stopped": "time_budget", "training_steps_planned": 100}
    diagnosis = _recorded(tmp_path, training(BP, epochs=10), **metrics)
    found = diagnosis.findings["timeout"]
    _says(found, "10 steps done", "= 100")
    assert found.confidence == "medium"


def test_a_batch_beyond_the_memory_limit(broken) -> None:
    folder = broken(training(BP, epochs=1, batch_size=10**7, loss="bce"), memory_gb=2.0)
    found = _root(diagnose_round(folder), "out_of_memory")
    _says(found, "limit in GB = 2.0", "training.batch_size = 10000000")
    from autoqec.runner.safety import estimated_memory_gb

    assert _patched(folder, found, "training.batch_size") > 1
    assert found.patch is not None
    needed = estimated_memory_gb(PredecoderDSL.model_validate(found.patch.config), env_of().problem(0.01))
    assert needed <= 2.0  # the suggestion fits, and not by a hundredfold
    assert needed > 0.2


def test_a_round_past_its_wall_clock_limit(broken) -> None:
    folder = broken(training(BP, epochs=10_000, batch_size=64, loss="bce"), wall_clock_s=1)
    found = _root(diagnose_round(folder), "timeout")
    _says(found, "wall-clock limit of 1 s", "= 310000", "training.epochs = 10000")
    assert _patched(folder, found, "training.epochs") < 10_000


def test_an_untrained_round_past_its_limit_gets_a_cheaper_model(broken) -> None:
    folder = broken(BP, wall_clock_s=1)
    found = _root(diagnose_round(folder), "timeout")
    assert _patched(folder, found, "neural_bp.iterations") == 2


def test_a_loss_that_never_moved(broken) -> None:
    folder = broken(training(GNN, learning_rate=1e-12))
    found = _root(diagnose_round(folder), "dead_gradient")
    assert found.confidence == "high"
    _says(found, "train.log:1-", "standard errors", "learning_rate = 1e-12", "kept step 0")
    assert _patched(folder, found, "training.learning_rate") == 1e-3


def test_a_loss_that_moved_without_the_ler(broken) -> None:
    folder = broken(training(GNN, learning_rate=1e-2, epochs=3))
    found = _root(diagnose_round(folder), "loss_without_ler")
    _says(found, "metrics.json: delta_ler_ci_low", "would have been clear", "training.loss = bce")
    assert _patched(folder, found, "training.loss") == "backend_gap"


def test_a_p_without_failures(broken) -> None:
    folder = broken(BP, env_of(noise={"p": [1e-4, 0.01], "reference_p": 1e-4}))
    found = _root(diagnose_round(folder), "degenerate_p")
    assert found.confidence == "high"
    _says(found, "reference_p = 0.0001", "0 in 4000 shots")
    assert found.patch is None  # no config can fix it
    assert found.env_change is not None
    assert (found.env_change.field, found.env_change.after) == ("noise.reference_p", 0.01)


def test_a_p_at_which_everybody_guesses(broken) -> None:
    folder = broken(BP, env_of(noise={"p": [0.3], "reference_p": 0.3}))
    found = _root(diagnose_round(folder), "degenerate_p")
    _says(found, "LER of guessing = 0.5")
    assert "guessing" in found.what


def _with_backend(env: Environment, backend: str, **blocks: Any) -> Environment:
    return Environment(env.spec.model_copy(update={"classical_backend": backend, **blocks}), root=env.root)


def test_matching_on_faults_that_do_not_decompose(broken) -> None:
    folder = broken(BP, _with_backend(load_env("steane_custom_dem"), "mwpm"))
    found = _root(diagnose_round(folder), "wrong_backend")
    _says(found, "classical_backend", "detectors")
    assert found.env_change is not None
    assert (found.env_change.before, found.env_change.after) == ("mwpm", "osd")


def test_ordered_statistics_on_a_large_matching_problem(broken) -> None:
    env = env_of(
        code={"source": "surface_code:rotated_memory_z?distance=9&rounds=9"},
        classical_backend="osd",
        baseline_decoders=["bposd"],
        noise={"p": [0.01], "reference_p": 0.01},
    )
    folder = broken(BP, env, wall_clock_s=1)
    diagnosis = diagnose_round(folder)
    found = _root(diagnosis, "wrong_backend")
    assert "timeout" in diagnosis.findings  # a consequence
    _says(found, f"each of at most two detectors = {env.problem(0.01).n_faults}")
    assert found.env_change is not None
    assert found.env_change.after == "mwpm"


def test_an_environment_that_cannot_be_built(broken, tmp_path: Path) -> None:
    env = env_of(code={"source": "no_such_circuit.stim"})
    with contextlib.suppress(InputError):
        broken(BP, env)
    diagnosis = diagnose_round(tmp_path / "round")
    found = _root(diagnosis, "environment_error")
    _says(found, "no_such_circuit")
    assert "compile_error" not in diagnosis.findings


def test_a_round_with_a_gain_is_healthy(broken) -> None:
    folder = broken(BP)
    diagnosis = diagnose_round(folder)
    assert diagnosis.is_healthy, diagnosis.to_dict()
    assert diagnosis.cause == "healthy"
    assert diagnosis.summary.startswith("LER ")
    assert diagnosis.gaps == ()
