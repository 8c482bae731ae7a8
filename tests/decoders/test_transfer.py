"""Starting from the checkpoint of another round: what fits is taken, and the report says what."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from autoqec.decoders import checkpoint
from autoqec.decoders.compiler import compile_predecoder, context
from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.decoders.modules.predecoders import ProblemPredecoder
from autoqec.decoders.modules.sharing import class_names
from autoqec.decoders.transfer import start_from
from autoqec.envs.environment import Environment
from autoqec.envs.load import load_env
from autoqec.errors import InputError

BP = {"iterations": 3, "weight_sharing": "neighbourhood", "prior_mix": True, "memory": "learnable"}
GNN = {"layers": 1, "hidden_dim": 4}


def rotated(distance: int) -> Environment:
    spec = load_env("surface_d3_depol").spec.model_dump(mode="json")
    spec["name"] = f"d{distance}"
    spec["code"]["source"] = f"surface_code:rotated_memory_z?distance={distance}&rounds={distance}"
    return load_env(spec)


def dsl(kind: str = "neural_bp", *, gnn: dict[str, Any] = GNN, **spec: Any) -> PredecoderDSL:
    blocks: dict[str, Any] = {"neural_bp": {**BP, **spec}} if kind != "gnn" else {}
    blocks |= {"gnn": gnn} if kind != "neural_bp" else {}
    return PredecoderDSL.model_validate({"type": kind, "output_mode": "soft_priors", **blocks})


def saved(folder: Path, config: PredecoderDSL, env: Environment) -> tuple[Path, ProblemPredecoder]:
    """A checkpoint as if trained: every parameter moved away from its start."""
    module = compile_predecoder(config, env.problem(0.01))
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 0.1 * torch.rand(parameter.shape, generator=torch.Generator().manual_seed(1)) + 0.1
    info = checkpoint.CheckpointInfo(
        dsl=config,
        output_mode="soft_priors",
        env_name=env.spec.name,
        env_hash="",
        seed=0,
        train_labels=(1, 2),
        versions={},
    )
    folder.mkdir()
    return checkpoint.save(folder, module, info), module


def started(path: Path, config: PredecoderDSL, env: Environment) -> tuple[Any, ProblemPredecoder]:
    module = compile_predecoder(config, env.problem(0.01), seed=5)
    return start_from(module, *checkpoint.read(path), sha256="f" * 64, where="here"), module


def test_on_the_same_problem_the_start_is_the_very_model(tmp_path: Path) -> None:
    env = rotated(3)
    path, trained = saved(tmp_path / "a", dsl("hybrid"), env)
    report, module = started(path, dsl("hybrid"), env)
    assert all((module.state_dict()[name] == tensor).all() for name, tensor in trained.state_dict().items())
    assert (report.left, report.unused, report.env_name) == ({}, [], "d3")
    assert all((match.unseen, match.unused) == (0, 0) for match in report.classes.values())
    syndrome = (torch.rand(4, env.problem(0.01).n_checks) < 0.2).float()
    answers = [
        each.eval().backend_weights(syndrome, context(env.problem(0.01))) for each in (trained, module)
    ]
    assert torch.equal(*answers)


def test_a_larger_code_takes_the_classes_that_it_has_in_common(tmp_path: Path) -> None:
    path, trained = saved(tmp_path / "a", dsl("hybrid"), rotated(5))
    report, module = started(path, dsl("hybrid"), rotated(7))
    theirs, ours = class_names(trained), class_names(module)
    assert report.classes.keys() == ours.keys() == {"bp.weight", "bp.memory", "mix.posterior", "mix.prior"}
    for name, names in ours.items():
        match = report.classes[name]
        assert match.matched == len(set(names) & set(theirs[name])) > 0.7 * len(names)
        assert match.matched + match.unseen == len(names)
        assert match.matched + match.unused == len(theirs[name])
        untouched = compile_predecoder(dsl("hybrid"), rotated(7).problem(0.01)).state_dict()[name]
        for at, one in enumerate(names):
            value = module.state_dict()[name][..., at]
            if one in theirs[name]:
                assert torch.equal(value, trained.state_dict()[name][..., theirs[name].index(one)])
            else:
                assert torch.equal(value, untouched[..., at])
    assert {"bp.damping", "bp.readout", "net.check.weight"} <= set(report.taken)
    text = "\n".join(report.lines())
    assert "trained on d5" in text
    assert f"bp.weight: {report.classes['bp.weight'].matched} of {len(ours['bp.weight'])} classes" in text


@pytest.mark.parametrize(
    ("source", "target", "left", "unused"),
    [
        (dsl(), dsl(iterations=4), {"bp.weight": "(3,) there, (4,) here"}, ""),
        (dsl(), dsl(weight_sharing="per_layer"), {"bp.weight": "in one of the two only"}, ""),
        (dsl(), dsl("hybrid"), {"net.check.weight": "not in the checkpoint"}, ""),
        (dsl("hybrid"), dsl(), {}, "net.check.weight"),
        (dsl("gnn"), dsl("gnn", gnn={**GNN, "layers": 2}), {"net.rounds.1.take.bias": "not in"}, ""),
    ],
    ids=["iterations", "sharing", "more", "less", "layers"],
)
def test_what_does_not_fit_is_named(
    source: PredecoderDSL, target: PredecoderDSL, left: dict[str, str], unused: str, tmp_path: Path
) -> None:
    path, _ = saved(tmp_path / "a", source, rotated(3))
    report, module = started(path, target, rotated(3))
    for name, why in left.items():
        assert why in report.left[name]
        default = compile_predecoder(target, rotated(3).problem(0.01), seed=5).state_dict()[name]
        assert torch.equal(module.state_dict()[name], default)
    assert not unused or unused in report.unused
    assert report.taken


def test_nothing_in_common_is_an_error(tmp_path: Path) -> None:
    path, _ = saved(tmp_path / "a", dsl("gnn"), rotated(3))
    with pytest.raises(InputError, match="nothing of it fits"):
        started(path, dsl(), rotated(3))


def test_another_radius_has_other_classes(tmp_path: Path) -> None:
    path, _ = saved(tmp_path / "a", dsl(), rotated(3))
    report, _ = started(path, dsl(radius=2), rotated(3))
    assert report.classes["bp.weight"].matched == 0


def test_a_checkpoint_is_restored_only_where_its_classes_are_the_problems(tmp_path: Path) -> None:
    path, trained = saved(tmp_path / "a", dsl(), rotated(3))
    info, module = checkpoint.load(path, rotated(3).problem(0.005))
    assert info.classes == class_names(trained) == class_names(module)
    renamed = info.model_copy(
        update={"classes": {**info.classes, "bp.memory": info.classes["bp.memory"][::-1]}}
    )
    _, state = checkpoint.read(path)
    with pytest.raises(InputError, match="other classes"):
        checkpoint.restore(renamed, state, rotated(3).problem(0.01), where="here")


def test_names_that_do_not_belong_to_the_numbers_are_not_believed(tmp_path: Path) -> None:
    path, _ = saved(tmp_path / "a", dsl(), rotated(3))
    info, state = checkpoint.read(path)
    for names in (
        info.classes["bp.weight"][:-1],
        [info.classes["bp.weight"][0]] * state["bp.weight"].shape[1],
    ):
        lying = info.model_copy(update={"classes": {**info.classes, "bp.weight": names}})
        module = compile_predecoder(dsl(), rotated(3).problem(0.01))
        report = start_from(module, lying, state, sha256="f" * 64, where="here")
        assert "one by one" in report.left["bp.weight"]


def test_words_of_a_file_are_cleaned_and_numbers_must_fit(tmp_path: Path) -> None:
    env = rotated(3)
    config = dsl(weight_sharing="per_layer", memory="none", prior_mix=False)
    path, _ = saved(tmp_path / "a", config, env)
    info, state = checkpoint.read(path)
    state["bp.readout"] = torch.full((3,), 1e300, dtype=torch.float64)
    state |= {f"extra {i}\x1b[2J": torch.zeros(1) for i in range(30)}
    module = compile_predecoder(config, env.problem(0.01))
    strange = info.model_copy(update={"env_name": "d3\x1b]0;title\x07"})
    report = start_from(module, strange, state, sha256="f" * 64, where="here")
    assert report.left["bp.readout"] == "too large for its precision here"
    assert all(torch.isfinite(each).all() for each in module.state_dict().values())
    assert len(report.unused) == 21
    assert "\x1b" not in "".join(report.lines())


def test_a_checkpoint_becomes_the_first_stage_of_a_cascade(tmp_path: Path) -> None:
    env = rotated(3)
    path, before = saved(tmp_path / "one", dsl(), env)
    stages = [{"type": "neural_bp", "neural_bp": BP}, {"type": "gnn", "gnn": GNN, "share": 0.1}]
    data = {"type": "cascade", "output_mode": "soft_priors", "stages": stages}
    report, module = started(path, PredecoderDSL.model_validate(data), env)
    assert any(name.startswith("stages.0.") for name in report.taken)
    syndrome = torch.zeros(2, env.problem(0.01).n_checks)
    ctx = context(env.problem(0.01))
    expected = before.edge_log_odds(syndrome, ctx)
    assert torch.equal(module.stages[0].edge_log_odds(syndrome, ctx), expected)


def test_a_checkpoint_becomes_every_later_stage_that_takes_it_whole(tmp_path: Path) -> None:
    """A hybrid behind its own propagation: the first stage takes the propagation, the second everything, and keeps it when its turn comes."""
    env = rotated(3)
    whole = {"type": "hybrid", "neural_bp": BP, "gnn": GNN}
    path, before = saved(
        tmp_path / "one", PredecoderDSL.model_validate({**whole, "output_mode": "soft_priors"}), env
    )
    stages = [{"type": "neural_bp", "neural_bp": BP}, {**whole, "share": 0.1}]
    data = {"type": "cascade", "output_mode": "soft_priors", "stages": stages}
    report, module = started(path, PredecoderDSL.model_validate(data), env)
    assert "stages.0.bp.readout" in report.taken
    assert 1 in module.started
    with torch.no_grad():
        for number in module.stages[0].parameters():
            number += 0.1
    module.train_stage(1)
    syndrome = torch.zeros(2, env.problem(0.01).n_checks)
    ctx = context(env.problem(0.01))
    assert torch.equal(module.stages[1].edge_log_odds(syndrome, ctx), before.edge_log_odds(syndrome, ctx))
    shorter = {**data, "stages": [stages[0], {**stages[1], "gnn": {**GNN, "layers": 3}}]}
    report, module = started(path, PredecoderDSL.model_validate(shorter), env)
    assert not any(name.startswith("stages.1.") for name in report.taken)
    assert 1 not in module.started
