"""Compiles the kernels that rounds of one kind use, so that numba's cache has them: `python -m autoqec.runner.warm BACKEND CONFIG`.

Only this package's own code runs here, on a problem of its own and a few shots.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from autoqec.decoders.dsl_schema import CLASSICAL, PredecoderDSL
from autoqec.envs.environment import Environment
from autoqec.envs.load import load_env
from autoqec.envs.schema import EnvSpec
from autoqec.io.scratch import scratch_folder
from autoqec.runner.safety import Safety
from autoqec.runner.schema import RunnerConfig

_SHOTS = 320  # of which a dev round trains on a tenth and validates on a fifth
_WITH_KERNELS = ("mlp", "gated_mlp", "residual_mlp")


def kind_of(dsl: PredecoderDSL) -> dict[str, Any]:
    """A small config that runs the same kernels. No code of the config is in it."""
    kind: dict[str, Any] = {"output_mode": dsl.output_mode}
    if dsl.stages is None:
        kind |= _blocks(dsl)
    else:
        first, *later = (
            {"type": stage.type, CLASSICAL[stage.type][0]: 2} if stage.type in CLASSICAL else _blocks(part)
            for stage, part in zip(dsl.stages, dsl.parts, strict=True)
        )
        kind |= {"type": dsl.type, "stages": [first, *({**stage, "share": 0.5} for stage in later)]}
    loss = dsl.training.loss if dsl.training.loss in ("backend_gap", "failures") else "bce"
    return kind | {"training": {"loss": loss, "epochs": 1, "batch_size": 16}}


def _blocks(dsl: PredecoderDSL) -> dict[str, Any]:
    kind: dict[str, Any] = {"type": dsl.type}
    if dsl.gnn is not None:
        has_kernel = dsl.gnn.message_fn in _WITH_KERNELS
        message = dsl.gnn.message_fn if has_kernel else "attention"
        kind["gnn"] = {"layers": 1, "hidden_dim": 4, "message_fn": message}
    if dsl.neural_bp is not None:
        kind["neural_bp"] = {"iterations": 2, "check_rule": dsl.neural_bp.check_rule}
    return kind


def main() -> None:
    from autoqec.runner.execute import Round

    env = _small(sys.argv[1])
    with scratch_folder("warm") as folder:
        config = RunnerConfig(
            env_name=env.spec.name, predecoder_config=json.loads(sys.argv[2]), round_dir=str(folder)
        )
        metrics = Round(config, env, Safety(), workers=1).run()
    sys.exit(metrics.status_reason if metrics.status != "ok" else 0)


def _small(backend: str) -> Environment:
    spec = load_env("surface_d3_depol").spec.model_dump()
    spec |= {"classical_backend": backend, "baseline_decoders": ["pymatching"]}
    spec["noise"] |= {"p": [0.01], "reference_p": 0.01}
    spec["eval_protocol"] |= {"min_shots_train": _SHOTS, "min_shots_val": _SHOTS}
    return Environment(EnvSpec.model_validate(spec))


if __name__ == "__main__":
    main()
