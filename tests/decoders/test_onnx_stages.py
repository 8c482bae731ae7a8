"""The files of a cascade: found by one name, used with the gates that they describe, refused where they do not belong together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from autoqec.decoders.answers import AnsweringDecoder, Kind
from autoqec.decoders.backends import make_backend
from autoqec.decoders.gates import Gates
from autoqec.decoders.onnx_file import PREFIX, described
from autoqec.decoders.onnx_predecoder import OnnxPredecoder
from autoqec.decoders.onnx_stages import about_stage, stage_path
from autoqec.decoders.pruned_sweep import PrunedSweep
from autoqec.envs.load import load_env
from autoqec.envs.packing import unpack
from autoqec.envs.problem import U8, DecodingProblem, log_odds
from autoqec.errors import InputError

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

P = 0.01
ENV = load_env("surface_d3_depol")
SHOTS = ENV.sampler(P).sample(2000, 3).detectors
GATES = Gates((2.75,), (None, None))


class Linear(AnsweringDecoder):
    """Two stages that can be written down: weights of the environment, shifted by the syndrome, and the second adds to the first."""

    def __init__(self, problem: DecodingProblem) -> None:
        super().__init__(make_backend(problem, "mwpm"), batch=100, gates=GATES)
        assert problem.graph is not None
        draw = np.random.default_rng(5)
        self.base = log_odds(problem.graph.priors).astype(np.float32)
        size = (2, problem.n_checks, problem.graph.n_edges)
        self.shifts = draw.integers(-2, 2, size).astype(np.float32)

    def answers(
        self, detectors: U8, stage: int = 0, earlier: npt.NDArray[Any] | None = None
    ) -> tuple[Kind, npt.NDArray[Any]]:
        start = self.base if earlier is None else earlier
        return "edges", start + unpack(detectors, self.problem.n_checks) @ self.shifts[stage]


@pytest.fixture(scope="module")
def linear() -> Linear:
    return Linear(ENV.problem(P))


@pytest.fixture
def written(linear: Linear, tmp_path: Path) -> Path:
    """Its two files, by the name that stands for both."""
    for stage in range(2):
        _write(linear, tmp_path / "m.onnx", stage)
    return tmp_path / "m.onnx"


def _write(linear: Linear, path: Path, stage: int) -> None:
    helper, numbers = onnx.helper, onnx.numpy_helper.from_array
    inputs = ["syndrome", "earlier_answers"][: stage + 1]
    nodes = [
        helper.make_node("MatMul", ["syndrome", "shifts"], ["shift"]),
        helper.make_node("Add", [["base", "earlier_answers"][stage], "shift"], ["answers"]),
    ]
    kept = {"shifts": linear.shifts[stage], "base": linear.base}
    graph = helper.make_graph(
        nodes,
        "stage",
        [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", None]) for name in inputs],
        [helper.make_tensor_value_info("answers", onnx.TensorProto.FLOAT, ["n", None])],
        [numbers(kept[name], name) for name in ("shifts", "base")[: 2 - stage]],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    said = {
        **described(linear.problem),
        "output": "edge_log_odds",
        "backend": "mwpm",
        "cascade_sha256": "1" * 64,
        **about_stage(stage, GATES, "mwpm", sees_earlier=stage > 0, path=path),
    }
    helper.set_model_props(model, {PREFIX + name: text for name, text in said.items()})
    stage_path(path, stage + 1).write_bytes(model.SerializeToString())


def _change(path: Path, stage: int, changes: dict[str, str | None]) -> None:
    """Other metadata; None removes."""
    file = stage_path(path, stage)
    model = onnx.load(file)
    said: dict[str, str | None] = {each.key: each.value for each in model.metadata_props}
    said |= {PREFIX + name: text for name, text in changes.items()}
    onnx.helper.set_model_props(model, {name: text for name, text in said.items() if text is not None})
    file.write_bytes(model.SerializeToString())


@pytest.mark.parametrize("name", ["m.onnx", "m.stage1.onnx"])
def test_one_name_stands_for_all_stages(name: str, linear: Linear, written: Path) -> None:
    found = OnnxPredecoder(written.with_name(name), linear.problem)
    assert found.gates == GATES
    own, theirs = linear.staged(SHOTS, sure_of_all=True), found.staged(SHOTS, sure_of_all=True)
    assert (own.predictions == theirs.predictions).all()
    assert (own.stage == theirs.stage).all()
    assert np.allclose(own.log_odds, theirs.log_odds, atol=1e-3)
    assert 100 < own.reached(2)[1] < len(SHOTS) - 100


def test_members_of_the_file_decide(linear: Linear, written: Path) -> None:
    gates = Gates(GATES.thresholds, GATES.orders, (None, 8))
    said = about_stage(1, gates, "mwpm", sees_earlier=False, path=written)
    _change(written, 2, {"stage_members": said["stage_members"]})
    found = OnnxPredecoder(written, linear.problem)
    assert found.gates == gates
    own, theirs = linear.staged(SHOTS, sure_of_all=True), found.staged(SHOTS, sure_of_all=True)
    is_close = np.isclose(own.log_odds, theirs.log_odds, atol=1e-3)
    assert (own.stage == theirs.stage).all()
    assert is_close[own.stage == 0].all()
    assert is_close[own.stage == 1].mean() < 0.1


def test_a_sweep_of_the_file_decides(linear: Linear, written: Path) -> None:
    gates = Gates(GATES.thresholds, GATES.orders, states=(None, 16))
    said = about_stage(1, gates, "mwpm", sees_earlier=False, path=written)
    _change(written, 2, {"stage_states": said["stage_states"]})
    found = OnnxPredecoder(written, linear.problem)
    assert found.gates == gates
    staged = found.staged(SHOTS, sure_of_all=True)
    swept = PrunedSweep(linear.problem, 16).decode_with_confidence(SHOTS)
    last = staged.stage == 1
    assert (staged.predictions[last] == swept.predictions[last]).all()
    assert (staged.log_odds[last] == swept.log_odds[last]).all()


def test_the_threshold_of_the_file_is_the_gate(linear: Linear, written: Path) -> None:
    _change(written, 1, {"threshold": "0.0"})
    assert OnnxPredecoder(written, linear.problem).staged(SHOTS).reached(2) == (len(SHOTS), 0)


def test_a_file_says_its_place_and_its_gate() -> None:
    gates = Gates((2.5, 0.1), (None, None, 4))
    first, second, third = (
        about_stage(at, gates, "osd", sees_earlier=at == 2, path=Path("some/m.onnx")) for at in range(3)
    )
    assert [said["stage"] for said in (first, second, third)] == ["1", "2", "3"]
    assert [float(said["threshold"]) for said in (first, second)] == [2.5, 0.1]
    assert "goes on to stage 2 if a number is below the threshold" in first["gate"]
    assert "never goes on" in second["gate"]
    assert third == {
        "stage": "3",
        "stages": "3",
        "stage_order": "4",
        "earlier_answers": "answers of stage 2, m.stage2.onnx",
    }


def test_the_gate_behind_an_ensemble_looks_at_the_mean() -> None:
    said = [
        about_stage(0, Gates((2.5,), (None, None), members), "mwpm", sees_earlier=False, path=Path("m.onnx"))
        for members in ((8, None), (None, 8))
    ]
    assert ["in the mean over its 8 matchings" in each["gate"] for each in said] == [True, False]


@pytest.mark.parametrize("name", ["m.onnx", "m.stage1.onnx"])
def test_a_missing_stage_is_named(name: str, linear: Linear, written: Path) -> None:
    missing = stage_path(written, 2)
    missing.unlink()
    with pytest.raises(InputError, match="stage 2 of 2 is not there") as caught:
        OnnxPredecoder(written.with_name(name), linear.problem)
    assert caught.value.where == str(missing)


@pytest.mark.parametrize(
    ("stage", "changes", "message"),
    [
        (2, {"cascade_sha256": "0" * 64}, r"belongs to another cascade than .*m\.stage1\.onnx"),
        (2, {"p": "0.5"}, "belongs to another cascade"),
        (2, {"stage": "1"}, "is stage 1 of 2, not 2 of 2"),
        (2, {"stages": "3"}, "is stage 2 of 3, not 2 of 2"),
        (2, {"stage": None, "stages": None}, "is not a stage of a cascade"),
        (2, {"priors": "[]"}, "its priors are not those"),
        (1, {"stage": "0"}, "is stage 0 of 2"),
        (1, {"stages": "-1"}, "has the stages '-1'"),
        (1, {"threshold": "nan"}, "has the threshold 'nan'"),
        (1, {"threshold": None}, "has the threshold ''"),
        (2, {"stage_order": "4"}, "mwpm has no order"),
        (2, {"stage_members": "1"}, "members is between 2 and 256"),
        (2, {"stage_states": "0"}, "states is between 1 and 65536"),
    ],
)
def test_files_that_do_not_belong_together_are_refused(
    stage: int, changes: dict[str, str | None], message: str, linear: Linear, written: Path
) -> None:
    _change(written, stage, changes)
    with pytest.raises(InputError, match=message):
        OnnxPredecoder(written, linear.problem)


def test_a_stage_by_itself_is_refused(linear: Linear, written: Path) -> None:
    with pytest.raises(InputError, match="is stage 2 of 2, not a predecoder by itself"):
        OnnxPredecoder(stage_path(written, 2), linear.problem)
    other = stage_path(written, 1).rename(written.with_name("other.onnx"))
    with pytest.raises(InputError, match=r"without \.stage1 in its name"):
        OnnxPredecoder(other, linear.problem)
    with pytest.raises(InputError, match="no such file"):
        OnnxPredecoder(written, linear.problem)


def test_a_first_stage_with_an_earlier_one_is_refused(linear: Linear, written: Path) -> None:
    stage_path(written, 2).replace(stage_path(written, 1))
    _write(linear, written, 1)
    _change(written, 1, {"stage": "1"})
    with pytest.raises(InputError, match="asks for an earlier one"):
        OnnxPredecoder(written, linear.problem)
