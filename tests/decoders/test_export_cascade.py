"""An exported cascade decodes as the pipeline does, stage by stage, and is written whole or not at all."""

from __future__ import annotations

import shutil
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from small_cascades import LARGE, SHIFT, SMALL, cascade, moved

from autoqec.commands.export import command
from autoqec.decoders import checkpoint, export
from autoqec.decoders.answers import AnsweringDecoder
from autoqec.decoders.backends import make_backend
from autoqec.decoders.checkpoint import CheckpointInfo
from autoqec.decoders.export import to_onnx
from autoqec.decoders.onnx_predecoder import OnnxPredecoder
from autoqec.decoders.pipeline import PredecoderPipeline
from autoqec.envs.load import load_env
from autoqec.envs.packing import unpack
from autoqec.errors import AutoQECError, InputError
from autoqec.io.hashing import sha256_file

pytestmark = pytest.mark.filterwarnings("ignore")
for library in ("onnx", "onnxscript", "onnxruntime"):
    pytest.importorskip(library)

ONCE = {"type": "neural_bp", "neural_bp": {"iterations": 1, "damping": "fixed"}}


def scene(name: str, *stages: dict[str, Any], thresholds: list[float]) -> SimpleNamespace:
    env = load_env(name)
    p = env.spec.noise.p[-1]
    problem = env.problem(p)
    dsl = cascade(*stages)
    module = moved(dsl, problem, by=0.1)
    module.thresholds.copy_(torch.tensor(thresholds))
    backend = make_backend(problem, env.spec.classical_backend)
    return SimpleNamespace(
        env=env,
        p=p,
        dsl=dsl,
        problem=problem,
        module=module,
        backend=backend,
        pipeline=PredecoderPipeline(module, backend),
        shots=env.sampler(p).sample(1500, 21).detectors,
        fresh=env.sampler(p).sample(3000, 22).detectors,
    )


def assert_same(found: AnsweringDecoder, expected: AnsweringDecoder, detectors: np.ndarray) -> None:
    theirs, own = found.staged(detectors), expected.staged(detectors)
    assert (theirs.predictions == own.predictions).all()
    assert (theirs.stage == own.stage).all()
    reached = own.reached(expected.gates.stages)
    assert len(detectors) == reached[0]
    assert all(before > after > 0 for before, after in pairwise(reached)), reached


def corrected() -> SimpleNamespace:
    """A graph network that corrects what belief propagation says."""
    return scene("surface_d3_depol", SMALL, SHIFT, thresholds=[2.75])


@pytest.fixture(scope="module")
def matching(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """One export for many tests."""
    given = corrected()
    path = tmp_path_factory.mktemp("onnx") / "m.onnx"
    given.done = to_onnx(given.module, given.backend, path, detectors=given.shots)
    return given


@pytest.mark.slow
def test_the_files_decode_as_the_cascade_does(matching: SimpleNamespace) -> None:
    assert_same(OnnxPredecoder(matching.done.path, matching.problem), matching.pipeline, matching.fresh)
    _, first = matching.pipeline.answers(matching.fresh[:200])
    _, later = matching.pipeline.answers(matching.fresh[:200], 1, first)
    assert not np.allclose(first, later, atol=0.1)


@pytest.mark.slow
def test_the_export_compares_stage_by_stage(matching: SimpleNamespace) -> None:
    done = matching.done
    assert [file.name for file in done.files] == ["m.stage1.onnx", "m.stage2.onnx"]
    assert sorted(done.path.parent.iterdir()) == sorted(done.files)
    assert done.compared.reached == matching.pipeline.staged(matching.shots).reached(2)
    assert (done.differing, done.compared.alone) == (0, (0, 0))


@pytest.mark.slow
def test_every_file_says_its_place_and_its_gate(matching: SimpleNamespace) -> None:
    first, second = (file.metadata for file in OnnxPredecoder(matching.done.path, matching.problem).files)
    assert [(said["stage"], said["stages"]) for said in (first, second)] == [("1", "2"), ("2", "2")]
    assert float(first["threshold"]) == 2.75
    assert "goes on to stage 2" in first["gate"]
    assert "below the threshold" in first["gate"]
    assert "this stage's weights" in first["gate"]
    assert not {"threshold", "gate"} & second.keys()
    assert second["earlier_answers"] == "answers of stage 1, m.stage1.onnx"
    assert "earlier_answers" not in first
    for name in ("faults", "edges", "priors", "backend", "p", "env", "version", "cascade_sha256"):
        assert first[name] == second[name]


@pytest.mark.slow
def test_other_programs_give_a_stage_what_the_one_before_answered(matching: SimpleNamespace) -> None:
    import onnxruntime

    first, second = map(onnxruntime.InferenceSession, matching.done.files)
    detectors = matching.fresh[:100]
    bits = unpack(detectors, matching.problem.n_checks).astype(np.float32)
    (answers,) = first.run(["answers"], {"syndrome": bits})
    (later,) = second.run(["answers"], {"syndrome": bits, "earlier_answers": answers})
    _, own = matching.pipeline.answers(detectors)
    assert np.allclose(answers, own, atol=1e-3)
    assert np.allclose(later, matching.pipeline.answers(detectors, 1, own)[1], atol=1e-3)


@pytest.mark.parametrize(
    ("taken", "message"), [("m.onnx", "would get the older one"), ("m.stage2.onnx", "is not a file")]
)
def test_names_that_are_taken_are_refused_before_the_work(
    taken: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = corrected()
    (tmp_path / taken).mkdir()
    monkeypatch.delattr(export, "onnx_graph")
    with pytest.raises(InputError, match=message):
        to_onnx(given.module, given.backend, tmp_path / "m.onnx", detectors=given.shots)
    assert [each.name for each in tmp_path.iterdir()] == [taken]


@pytest.mark.slow
def test_a_stage_that_begins_anew(tmp_path: Path) -> None:
    short = {**LARGE, "neural_bp": {"iterations": 3}}  # a graph spells out each iteration
    given = scene("surface_d3_depol", SMALL, short, thresholds=[3.0])
    to_onnx(given.module, given.backend, tmp_path / "m.onnx", detectors=given.shots)
    found = OnnxPredecoder(tmp_path / "m.onnx", given.problem)
    assert_same(found, given.pipeline, given.fresh)
    assert "earlier_answers" not in found.files[1].metadata


@pytest.mark.slow
def test_ordered_statistics_with_an_order_of_the_stage(tmp_path: Path) -> None:
    """Two graph networks in sequence: the last sees what the second says, not what the first does."""
    given = scene(
        "steane_custom_dem", ONCE, {**SHIFT, "share": 0.4}, {**SHIFT, "order": 3}, thresholds=[8.0, 5.0]
    )
    done = to_onnx(given.module, given.backend, tmp_path / "m.onnx", detectors=given.shots)
    found = OnnxPredecoder(tmp_path / "m.onnx", given.problem)
    assert_same(found, given.pipeline, given.fresh)
    assert done.output == "fault_probabilities"
    assert found.gates == given.module.gates
    first, second, third = (file.metadata for file in found.files)
    assert "likelier than not never goes on" in first["gate"]
    assert [said.get("stage_order") for said in (first, second, third)] == [None, None, "3"]
    assert third["earlier_answers"] == "answers of stage 2, m.stage2.onnx"


@pytest.mark.slow
def test_a_cascade_of_which_one_stage_answers_otherwise_is_not_written(
    matching: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Other(export.PipelineAnswers):
        def forward(self, syndrome: torch.Tensor, earlier: torch.Tensor | None = None) -> torch.Tensor:
            out = super().forward(syndrome, earlier)
            return out.flip(1) if self.sees_earlier else out

    monkeypatch.setattr(export, "PipelineAnswers", Other)
    with pytest.raises(AutoQECError, match="are not the pipeline's"):
        to_onnx(matching.module, matching.backend, tmp_path / "m.onnx", detectors=matching.shots)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_command_writes_and_describes_every_stage(matching: SimpleNamespace, tmp_path: Path) -> None:
    info = CheckpointInfo(
        dsl=matching.dsl,
        output_mode="soft_priors",
        env_name=matching.env.spec.name,
        env_hash=matching.env.content_hash,
        seed=0,
        train_labels=(0, -1),
        versions={},
    )
    path = checkpoint.save(tmp_path, matching.module, info)
    target = tmp_path / "new.onnx"
    options = ["--env", matching.env.spec.name, "--onnx", str(target), "--p", str(matching.p)]
    result = CliRunner().invoke(command, [str(tmp_path), *options])
    assert result.exit_code == 0, result.output
    assert "new.stage1.onnx" in result.output
    assert f"Stage 1: {export.CHECKED_SHOTS} shots reach it" in result.output
    assert "Below 2.75 they go on" in result.output
    found = OnnxPredecoder(target, matching.problem)
    assert_same(found, matching.pipeline, matching.fresh)
    assert {file.metadata["checkpoint_sha256"] for file in found.files} == {sha256_file(path)}
    shutil.copy(matching.done.files[1], tmp_path / "new.stage2.onnx")
    with pytest.raises(InputError, match="belongs to another cascade"):
        OnnxPredecoder(target, matching.problem)
