"""An evaluator as one would write it without suspicion, to show what a cheat gains where nothing stops it.

    naive.py <env.json> <round folder> <module file> <purpose> <label>

Everything is in one process: the model's code, the shots with their observables, and the baseline. Seeds are public. A shot
without a finite answer is left out; a batch on which the model raises is decoded by the plain backend.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import torch

_NAME = "autoqec.decoders.modules.predecoders"
_spec = importlib.util.spec_from_file_location(_NAME, sys.argv[3])
sys.modules[_NAME] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(sys.modules[_NAME])  # the branch's module in the place of the package's own

from autoqec.decoders.backends.matching import MatchingBackend  # noqa: E402
from autoqec.decoders.compiler import compile_predecoder  # noqa: E402
from autoqec.decoders.dsl_schema import PredecoderDSL  # noqa: E402
from autoqec.decoders.pipeline import PredecoderPipeline  # noqa: E402
from autoqec.envs.environment import Environment  # noqa: E402
from autoqec.envs.schema import EnvSpec  # noqa: E402
from autoqec.envs.seeds import derive_seed  # noqa: E402

SHOTS = 4000
BATCH = 256


def is_finite(pipeline, rows):
    if pipeline.module.output_mode == "hard_flip":
        return np.ones(len(rows), bool)
    return np.isfinite(pipeline.soft_weights(rows)).all(axis=1)


def failures(predicted, observables):
    return (predicted != observables).any(axis=1)


def main() -> None:
    spec, folder, _, purpose, label = sys.argv[1:]
    env = Environment(EnvSpec.model_validate_json(Path(spec).read_text()))
    p = env.spec.noise.reference_p
    content = torch.load(Path(folder, "checkpoint.pt"), weights_only=True)
    dsl = PredecoderDSL.model_validate(json.loads(content["info"])["dsl"])
    module = compile_predecoder(dsl, env.built_problem(p)).eval()
    module.load_state_dict(content["state"])
    backend = MatchingBackend(env.built_problem(p))
    pipeline = PredecoderPipeline(module, backend)
    pipeline._batch = BATCH
    shots = env.sampler(p).sample(SHOTS, derive_seed(purpose, env.stream(p), int(label)))
    kept, wrong = [], []
    for start in range(0, SHOTS, BATCH):
        rows, truth = shots.detectors[start : start + BATCH], shots.observables[start : start + BATCH]
        try:
            good = is_finite(pipeline, rows)
            rows, truth = rows[good], truth[good]
            predicted = pipeline.decode(rows)
        except Exception:
            good, predicted = np.ones(len(rows), bool), backend.decode(rows)
        kept.append(good)
        wrong.append(failures(predicted, truth))
    baseline = (backend.decode(shots.detectors) != shots.observables).any(axis=1)
    print(f"{baseline.mean():.4f} -> {np.concatenate(wrong).mean():.4f}")


if __name__ == "__main__":
    main()
