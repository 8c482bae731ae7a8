"""An exported file decodes as the pipeline does, says what it holds, and is not written where it does not."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from autoqec import __version__
from autoqec.commands.export import command
from autoqec.decoders import checkpoint, export, onnx_graph
from autoqec.decoders.backends import make_backend
from autoqec.decoders.checkpoint import CheckpointInfo
from autoqec.decoders.compiler import compile_predecoder
from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.decoders.export import to_onnx
from autoqec.decoders.onnx_predecoder import OnnxPredecoder
from autoqec.decoders.pipeline import PredecoderPipeline
from autoqec.envs.load import load_env
from autoqec.errors import AutoQECError, InputError, UnavailableError
from autoqec.io.hashing import sha256_file

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
for library in ("onnx", "onnxscript", "onnxruntime"):
    pytest.importorskip(library)

ENVS = {"mwpm": ("surface_d3_depol", 0.01), "osd": ("bb72_capacity", 0.06)}
KINDS = {
    ("mwpm", "soft_priors"): "edge_log_odds",
    ("osd", "soft_priors"): "fault_probabilities",
    ("mwpm", "hard_flip"): "applied_faults",
    ("osd", "hard_flip"): "applied_faults",
}


def scene(backend: str, mode: str, shots: int = 3000, iterations: int = 1) -> SimpleNamespace:
    """A module whose every weight was moved, so that its mix of posterior and prior matters. An iteration more takes seconds to export."""
    name, p = ENVS[backend]
    env = load_env(name)
    config = {
        "type": "neural_bp",
        "output_mode": mode,
        "neural_bp": {"iterations": iterations, "prior_mix": True},
        "hard_flip": {"confidence": 0.7},
    }
    dsl = PredecoderDSL.model_validate({k: v for k, v in config.items() if k != "hard_flip" or mode == k})
    module = compile_predecoder(dsl, env.problem(p)).eval()
    generator = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for weight in (module.mix.posterior, module.mix.prior):
            weight += 0.5 * torch.rand(weight.shape, generator=generator)
    return SimpleNamespace(
        env=env,
        p=p,
        dsl=dsl,
        problem=env.problem(p),
        module=module,
        backend=make_backend(env.problem(p), backend),
        shots=env.sampler(p).sample(shots, 21),
    )


def described(given: SimpleNamespace, **changes: object) -> CheckpointInfo:
    facts = {
        "dsl": given.dsl,
        "output_mode": "soft_priors",
        "env_name": given.env.spec.name,
        "env_hash": given.env.content_hash,
        "seed": 0,
        "train_labels": (0, -1),
        "versions": {},
    }
    return CheckpointInfo(**{**facts, **changes})


@pytest.mark.parametrize(("backend", "mode"), KINDS)
def test_the_file_decodes_as_the_pipeline_does(backend: str, mode: str, tmp_path: Path) -> None:
    given = scene(backend, mode, iterations=5)
    done = to_onnx(given.module, given.backend, tmp_path / "m.onnx", detectors=given.shots.detectors)
    assert (done.output, done.shots, done.p) == (KINDS[backend, mode], 3000, given.p)
    fresh = given.env.sampler(given.p).sample(2000, 22).detectors
    found = OnnxPredecoder(done.path, given.problem).decode(fresh)
    expected = PredecoderPipeline(given.module, given.backend).decode(fresh)
    assert int((found != expected).any(axis=1).sum()) <= 2  # ties
    with torch.no_grad():
        given.module.mix.posterior.fill_(0.0)
        given.module.mix.prior.fill_(-1.0)
    without = PredecoderPipeline(given.module, given.backend).decode(fresh)
    assert int((found != without).any(axis=1).sum()) > 50


def test_the_file_says_what_it_holds(tmp_path: Path) -> None:
    given = scene("mwpm", "soft_priors", 64)
    done = to_onnx(given.module, given.backend, tmp_path / "m.onnx", detectors=given.shots.detectors)
    said = OnnxPredecoder(done.path, given.problem).metadata
    graph = given.problem.graph
    assert np.array_equal(json.loads(said["edges"]), graph.ends)
    assert min(end for edge in json.loads(said["edges"]) for end in edge) == -1
    flipped = [np.flatnonzero(row).tolist() for row in graph.observables]
    assert json.loads(said["edge_observables"]) == flipped
    column = given.problem.h.toarray()[:, 17]
    assert json.loads(said["faults"])[17] == np.flatnonzero(column).tolist()
    assert (said["backend"], said["env"], said["version"]) == ("mwpm", "surface_d3_depol", __version__)
    with pytest.raises(InputError, match=r"was exported for surface_d3_depol at p = 0\.01"):
        OnnxPredecoder(done.path, given.env.problem(0.005))


def test_a_file_that_decodes_otherwise_is_not_written(tmp_path: Path, monkeypatch) -> None:
    given = scene("mwpm", "soft_priors")

    class Other(export.PipelineAnswers):
        def forward(self, syndrome: torch.Tensor) -> torch.Tensor:
            return super().forward(syndrome).flip(1)

    monkeypatch.setattr(export, "PipelineAnswers", Other)
    with pytest.raises(AutoQECError, match="are not the pipeline's"):
        to_onnx(given.module, given.backend, tmp_path / "m.onnx", detectors=given.shots.detectors)
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_exported_file_is_refused(tmp_path: Path) -> None:
    problem = load_env("surface_d3_depol").problem(0.01)
    (tmp_path / "m.onnx").write_bytes(b"no model")
    with pytest.raises(InputError, match="is not an ONNX model"):
        OnnxPredecoder(tmp_path / "m.onnx", problem)


def test_a_file_with_weights_elsewhere_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """onnxruntime would take them from the working directory."""
    import onnx

    given = scene("mwpm", "soft_priors", 64)
    path = to_onnx(given.module, given.backend, tmp_path / "m.onnx", detectors=given.shots.detectors).path
    monkeypatch.chdir(tmp_path)
    onnx.save(onnx.load(path), "split.onnx", save_as_external_data=True, size_threshold=0, location="w.bin")
    assert (tmp_path / "w.bin").stat().st_size > 0
    with pytest.raises(InputError, match="keeps weights in other files"):
        OnnxPredecoder(tmp_path / "split.onnx", given.problem)


def test_what_one_file_cannot_hold_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = scene("mwpm", "soft_priors", 64)
    monkeypatch.setattr(onnx_graph, "MAX_BYTES", 100_000)
    with pytest.raises(UnavailableError, match="an ONNX file holds"):
        to_onnx(given.module, given.backend, tmp_path / "m.onnx", detectors=given.shots.detectors)
    assert list(tmp_path.iterdir()) == []


def test_a_million_iterations_are_not_spelled_out(tmp_path: Path) -> None:
    given = scene("mwpm", "soft_priors", 8)
    config = {"type": "neural_bp", "output_mode": "soft_priors", "neural_bp": {"iterations": 1_000_000}}
    info = described(given, dsl=PredecoderDSL.model_validate(config))
    with pytest.raises(UnavailableError, match="1000000 of them"):
        export.export_round(given.env, info, {}, tmp_path / "m.onnx", sha256="")


def test_the_command_names_checkpoint_and_comparison(tmp_path: Path) -> None:
    given = scene("mwpm", "soft_priors", 8)
    info = described(given)
    path = checkpoint.save(tmp_path, given.module, info)
    target = tmp_path / "m.onnx"
    result = CliRunner().invoke(
        command, [str(tmp_path), "--env", given.env.spec.name, "--onnx", str(target), "--p", "0.01"]
    )
    assert result.exit_code == 0, result.output
    assert "edge_log_odds at p = 0.01" in result.output
    assert f"of {export.CHECKED_SHOTS} predictions differ" in result.output
    said = OnnxPredecoder(target, given.problem).metadata
    assert said["checkpoint_sha256"] == sha256_file(path)
    assert said["env_hash"] == given.env.content_hash
