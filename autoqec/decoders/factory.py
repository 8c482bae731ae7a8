"""A trained predecoder as a decoder factory: for paired evaluations and for sinter."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from autoqec.decoders.protocol import SHOTS_AT_ONCE, Decoder
from autoqec.envs.problem import DecodingProblem
from autoqec.io.hashing import sha256_file


@dataclass(frozen=True)
class PredecoderFactory:
    """The predecoder of a checkpoint in front of a backend; its identity is the checkpoint's hash.

    order: of ordered statistics behind it. device: where the network runs. On a GPU the backend takes all cores, so evaluate in one process,
    and many shots at once.
    """

    name: str
    path: str
    backend: str
    sha256: str
    device: str = "cpu"
    order: int = 0

    @classmethod
    def of(cls, path: Path, backend: str, *, device: str = "cpu", order: int = 0) -> PredecoderFactory:
        name = f"predecoder-{order}" if order else "predecoder"
        return cls(name, str(path.resolve()), backend, sha256_file(path), device, order)

    @property
    def identity(self) -> str:
        return f"{self.name}/{self.backend}/{self.sha256}"

    @property
    def shots_at_once(self) -> int:
        return SHOTS_AT_ONCE if self.device == "cpu" else 4 * SHOTS_AT_ONCE

    def build(self, problem: DecodingProblem) -> Decoder:
        import torch

        from autoqec.decoders import checkpoint
        from autoqec.decoders.backends import make_backend
        from autoqec.decoders.pipeline import PredecoderPipeline

        _, module = checkpoint.load(Path(self.path), problem)
        if self.device == "cpu":
            torch.set_num_threads(1)
        threads = 1 if self.device == "cpu" else None
        return PredecoderPipeline(
            module, make_backend(problem, self.backend, self.order), device=self.device, threads=threads
        )
