"""Apple's MPS, as far as it can be checked without one: it has no doubles, and not every operation.

`native_functions.yaml`, which comes with torch, says which operations have kernels for it.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import torchgen
import yaml
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves

from autoqec.decoders.backends import make_backend
from autoqec.decoders.compiler import compile_predecoder, context
from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.decoders.pipeline import PredecoderPipeline
from autoqec.envs.load import load_env
from autoqec.io.strict_yaml import read_yaml
from autoqec.runner.data import FaultSampler, sampling_device
from autoqec.runner.gap import make_pairs
from autoqec.runner.hard_shots import HardShots
from autoqec.runner.losses import MARGINAL_LOSSES
from autoqec.runner.objective import GapObjective, MarginalObjective
from autoqec.runner.stages import LeftOpen
from tests.decoders.both_halves import with_both_halves

EXAMPLES = {path.stem: path for path in sorted(Path("autoqec/example_db").glob("*.yaml"))}
BOTH = "both halves of the syndrome"
CASES = [
    (name, env)
    for name in EXAMPLES
    if name not in ("cascade_sweep", "joint_legs_bb72")  # their last stages have nothing to train
    for env in ([BOTH] if name.startswith("turbo") else ["surface_d3_depol", "bb72_capacity"])
]
EVERYWHERE = {
    "MPS",
    "CompositeExplicitAutograd",
    "CompositeExplicitAutogradNonFunctional",
    "CompositeImplicitAutograd",
}
WIDE = {torch.float64, torch.complex64, torch.complex128}


@cache
def declared() -> dict[str, dict[str, Any]]:
    path = Path(torchgen.__file__).parent / "packaged" / "ATen" / "native" / "native_functions.yaml"
    rows = yaml.load(path.read_text(), Loader=yaml.CSafeLoader)
    return {row["func"].split("(")[0]: row for row in rows}


def runs_on_mps(operation: str) -> bool:
    row = declared()[operation]
    if "structured_delegate" in row:
        return runs_on_mps(row["structured_delegate"])
    keys = {key.strip() for group in row.get("dispatch") or {} for key in group.split(",")}
    return not keys or not keys.isdisjoint(EVERYWHERE)


class Watch(TorchDispatchMode):
    """Every operation that torch is asked for, and those whose result MPS cannot hold."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: set[str] = set()
        self.wide: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func.namespace == "aten":
            name = func._schema.name.removeprefix("aten::")
            name += f".{func._overloadname}" if func._overloadname != "default" else ""
            self.operations.add(name)
            if any(isinstance(leaf, torch.Tensor) and leaf.dtype in WIDE for leaf in tree_leaves(out)):
                self.wide.add(name)
        return out

    def missing(self) -> list[str]:
        return sorted(name for name in self.operations if not runs_on_mps(name))


class SampledOnTheCpu(FaultSampler):
    """Samples unwatched, as for MPS it does so on another device."""

    def sample(self, size: int, seed: int) -> Any:
        with _disable_current_modes():
            return super().sample(size, seed)


def test_the_table_of_kernels_tells_what_is_missing() -> None:
    assert not runs_on_mps("poisson")
    assert runs_on_mps("mm")
    assert runs_on_mps("index_add_")


def test_shots_for_mps_are_sampled_on_the_cpu() -> None:
    assert sampling_device(torch.device("mps")) == torch.device("cpu")
    assert sampling_device(torch.device("cuda", 0)) == torch.device("cuda", 0)


def test_a_cascade_that_trains_on_mps_looks_through_shots_on_the_cpu() -> None:
    env = load_env("surface_d3_depol")
    problem = env.problem(0.01)
    dsl = PredecoderDSL.model_validate(read_yaml(EXAMPLES["cascade_surface_d5"]))
    is_open = LeftOpen(compile_predecoder(dsl, problem), make_backend(problem, "mwpm"), torch.device("mps"))
    assert is_open(*env.sampler(0.01).sample(200, 1)).any()


@pytest.mark.slow
@pytest.mark.parametrize(("example", "env_name"), CASES)
def test_training_and_decoding_use_what_mps_has(example: str, env_name: str) -> None:
    env = with_both_halves() if env_name == BOTH else load_env(env_name)
    problem = env.problem(env.spec.noise.p[0])
    data: Any = read_yaml(EXAMPLES[example])
    for stage in data.get("stages", [data]):
        if stage.get("neural_bp", {}).get("turbo", {}).get("legs"):
            # more would only repeat the same operations
            stage["neural_bp"]["turbo"] |= {"legs": 2, "leg_exchanges": 2}
    dsl = PredecoderDSL.model_validate(data)
    module = compile_predecoder(dsl, problem)
    for part in module.modules():
        if getattr(part, "fused", False):
            part.fused = False  # that is for the CPU
    sampler = SampledOnTheCpu([problem], "cpu")
    backend = env.spec.classical_backend
    objectives: list[Any] = [
        MarginalObjective(sampler, lambda index: index, 16, loss) for loss in MARGINAL_LOSSES.values()
    ]
    if problem.graph is None or problem.n_observables == 1:
        pairs = make_pairs(problem, backend, 1)
        objectives.append(
            GapObjective(HardShots(sampler, lambda i: i, pairs.is_hard, size=64, draw=64), 16, pairs)
        )
    optimiser = torch.optim.AdamW(module.parameters(), lr=1e-3)
    detectors = env.sampler(problem.p).sample(16, 1).detectors
    decoder = PredecoderPipeline(module, make_backend(problem, backend))
    with Watch() as seen:
        for objective in objectives:
            objective.prepare(0)
            objective.step(module, 0)
            torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
            optimiser.step()
        decoder.decode(detectors)
    held = [*module.state_dict().values(), *module.buffers(), *context(problem, "cpu").values()]
    assert seen.missing() == []
    assert seen.wide == set()
    assert not any(isinstance(value, torch.Tensor) and value.dtype in WIDE for value in held)
    assert len(seen.operations) > 30
