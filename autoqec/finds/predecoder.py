"""A predecoder that was found, as a decoder: in Python, in paired comparisons and, by `sinter_adapter`, in sinter."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt
import stim

from autoqec.decoders.backends import make_backend
from autoqec.decoders.checkpoint_env import env_or_own
from autoqec.decoders.reference_p import reference_p
from autoqec.envs.build import problem_from_dem
from autoqec.envs.environment import Environment
from autoqec.envs.packing import packed_shots, unpack
from autoqec.envs.problem import F64, DecodingProblem
from autoqec.envs.schema import EnvSpec
from autoqec.errors import InputError, UnavailableError
from autoqec.eval.scope import MODEL_CODE
from autoqec.eval.subject import Described, code_of_round
from autoqec.finds.confined import ConfinedDecoder
from autoqec.finds.fit import fitted
from autoqec.finds.zoo import is_zoo_name, round_folder, zoo_entry
from autoqec.io.hashing import sha256_bytes
from autoqec.io.optional import named_if_missing
from autoqec.io.untrusted_file import is_there
from autoqec.io.validate import validate_model
from autoqec.layout import RoundDir, VerifierDir
from autoqec.sandbox.installed import installed_root, is_same_package

if TYPE_CHECKING:
    import sinter
    from torch import Tensor

    from autoqec.decoders.export import OnnxExport
    from autoqec.decoders.pipeline import PredecoderPipeline

Bits = npt.NDArray[Any]


@dataclass(frozen=True)
class Predecoder:
    """A trained predecoder in front of the backend that it was verified with. Made by `load_predecoder`.

    It decodes at one physical error rate, `p`: what the backend and the network know of the noise is taken there. As a
    `DecoderFactory` it is built anew for whatever problem it is given, in any process.

    name: in tables. checkpoint, sha256: the file, and what it was when it was loaded. order: of ordered statistics behind it.
    device: where the network runs. is_confined: whether its model holds code, of its config or its branch, and so runs in the sandbox.
    code: folder of the `autoqec` package that it needs, where that is not the installed one.
    """

    name: str
    checkpoint: str
    sha256: str
    env_spec: str
    env_root: str
    p: float
    order: int = 0
    device: str = "cpu"
    is_confined: bool = False
    code: str | None = None
    _built: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {name: {} if name == "_built" else getattr(self, name) for name in self.__dataclass_fields__}

    @property
    def identity(self) -> str:
        return f"{self.sha256}/{self._env.spec.classical_backend}-{self.order}"

    @property
    def folder(self) -> Path:
        """That of its round; of a checkpoint with another name than a round's, the file without its ending."""
        path = Path(self.checkpoint)
        return path.parent if path == RoundDir(path.parent).checkpoint else path.with_suffix("")

    @property
    def env(self) -> Environment:
        """The environment that it was trained on."""
        return self._env

    def at(self, p: float) -> Predecoder:
        """The same predecoder at another physical error rate of its environment."""
        self._env.check_sweep([p], where="p")
        return replace(self, p=p, _built={})

    def decode(
        self, shots: Bits, *, bit_packed_shots: bool = False, bit_packed_predictions: bool = False
    ) -> Bits:
        """Predicted observables, uint8 [shots, n_observables].

        Args:
            shots: detection events [shots, n_detectors] of zeros and ones; packed like Stim's `b8` with `bit_packed_shots`.
            bit_packed_predictions: whether to pack the predictions, too.
        """
        packed = packed_shots(shots, self._problem.n_checks, is_packed=bit_packed_shots)
        predicted = self._decoder.decode(packed)
        return predicted if bit_packed_predictions else unpack(predicted, self._problem.n_observables)

    def decode_with_confidence(self, shots: Bits, *, bit_packed_shots: bool = False) -> tuple[Bits, F64]:
        """Predicted observables [shots, n_observables], and for every shot the log-odds that all of them are right, as the model sees
        it: the weight of the lightest correction of another logical class, less that of the lightest of the predicted one.
        """
        packed = packed_shots(shots, self._problem.n_checks, is_packed=bit_packed_shots)
        predicted, log_odds = self._decoder.decode_with_confidence(packed)
        return unpack(predicted, self._problem.n_observables), log_odds

    def as_sinter(self, *, discard_below: float | None = None) -> sinter.Decoder:
        """For `sinter.collect(custom_decoders={...})`. discard_below: log-odds below which sinter counts a shot as discarded."""
        from autoqec.decoders.sinter_adapter import SinterDecoder

        return SinterDecoder(self, discard_below=discard_below)

    def build(self, problem: DecodingProblem) -> PredecoderPipeline | ConfinedDecoder:
        """The decoder for an error model: that of the environment, or one with the same faults and other probabilities.

        Raises:
            InputError: it is another problem, or the checkpoint was replaced since it was loaded.
        """
        from autoqec.decoders import checkpoint

        described, state = self._read()
        problem = fitted(problem, self._env)
        backend = make_backend(problem, self._env.spec.classical_backend, self.order)
        if self.is_confined:
            return ConfinedDecoder(
                described["dsl"],
                {name: tensor.numpy() for name, tensor in state.items()},
                described["output_mode"],
                backend,
                installed_root() if self.code is None else Path(self.code),
            )
        import torch

        from autoqec.decoders.pipeline import PredecoderPipeline

        if self.device == "cpu":
            torch.set_num_threads(1)
        info = checkpoint.checked_info(described, where=self.checkpoint)
        module = checkpoint.restore(info, state, problem, where=self.checkpoint)
        return PredecoderPipeline(
            module, backend, device=self.device, threads=1 if self.device == "cpu" else None
        )

    def build_for(self, dem: stim.DetectorErrorModel) -> PredecoderPipeline | ConfinedDecoder:
        """`build` for an error model as Stim has it: with `decompose_errors=True` where the backend is matching."""
        return self.build(problem_from_dem(dem.flattened(), need_graph=False))

    def to_onnx(self, path: str | Path) -> OnnxExport:
        """Writes what the network answers at this p as an ONNX file, once onnxruntime gives the same predictions from it. A cascade is
        written as one file for each stage: m.stage1.onnx and so on for m.onnx.

        Not for a predecoder with code of its own: an export would run that code outside the sandbox.
        """
        from autoqec.decoders import checkpoint
        from autoqec.decoders.export import export_round

        described, state = self._read()
        if self.is_confined:
            code = "code of its config" if self.code is None else "modules of its branch"
            raise UnavailableError(
                f"it has {code}, for the sandbox only, and an export would run it outside",
                where=self.checkpoint,
                hint="use it in Python, in sinter or with `autoqec decode`, where it runs in the sandbox",
            )
        info = checkpoint.checked_info(described, where=self.checkpoint)
        return export_round(self._env, info, state, Path(path), sha256=self.sha256, p=self.p)

    def to_safetensors(self, path: str | Path) -> None:
        """Writes its weights, with what the checkpoint says about itself as metadata."""
        from autoqec.decoders.export import to_safetensors

        to_safetensors(*self._read(), Path(path))

    def _read(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """What the checkpoint says about itself, and its weights."""
        from autoqec.decoders import checkpoint

        data = checkpoint.read_file(Path(self.checkpoint))
        if sha256_bytes(data) != self.sha256:
            raise InputError("was replaced after it was loaded", where=self.checkpoint, hint="load it again")
        return checkpoint.parse(data, where=self.checkpoint)

    @cached_property
    def _env(self) -> Environment:
        return Environment(EnvSpec.model_validate_json(self.env_spec), root=Path(self.env_root))

    @cached_property
    def _problem(self) -> DecodingProblem:
        return self._env.problem(self.p)

    @property
    def _decoder(self) -> PredecoderPipeline | ConfinedDecoder:
        if "decoder" not in self._built:
            self._built["decoder"] = self.build(self._problem)
        return self._built["decoder"]  # type: ignore[no-any-return]


@named_if_missing()
def load_predecoder(
    source: str | Path,
    *,
    env: str | Path | Environment | None = None,
    p: float | None = None,
    order: int = 0,
    device: str = "cpu",
    name: str | None = None,
    repo: str | Path | None = None,
) -> Predecoder:
    """The predecoder of a round, as a decoder.

    Args:
        source: folder of a round, or its checkpoint.pt. `ID/round_3` stands for `runs/ID/round_3` of the working directory,
            `zoo:ENV/NAME` for a predecoder that comes with the package.
        env: what it was trained on. Default: found by what the round says, if it is there.
        p: physical error rate of the shots. Default: the environment's reference p.
        order: of ordered statistics, for environments with that backend. A round is verified with 0.
        device: where the network runs.
        name: in tables. Default: that of the folder.
        repo: repository of the round's commit, if it is not that of the working directory.

    Code that a round brings along, in its config or on its branch, runs in the sandbox only.

    Examples:
        >>> import autoqec
        >>> find = autoqec.load_predecoder("runs/20261115-113000/round_3")        # doctest: +SKIP
        >>> shots = find.env.sample(find.p, 1000)                                 # doctest: +SKIP
        >>> (find.decode(shots.detectors) != shots.observables).any(axis=1).sum() # doctest: +SKIP
    """
    given = round_folder(source, Path.cwd())
    files = RoundDir(given if given.is_dir() else given.parent)
    path = files.checkpoint if given.is_dir() else given
    if not is_there(path):
        raise InputError(
            "has no checkpoint.pt" if given.is_dir() else "is not there",
            where=str(given),
            hint="give the folder of a round that was trained",
        )
    from autoqec.decoders import checkpoint

    data = checkpoint.read_file(path)
    described, _ = checkpoint.parse(data, where=str(path))
    info = validate_model(described, Described, where=str(path))
    found = env_or_own(env, path)
    if info.env_hash != found.content_hash:
        raise InputError(
            f"the checkpoint belongs to {info.env_name}, or to another version of {found.spec.name}",
            where=str(path),
            hint="give the environment that the round was trained on",
        )
    code = code_of_round(files, info, VerifierDir(), None if repo is None else Path(repo)).root
    is_own = code == installed_root() or is_same_package(code, MODEL_CODE)
    is_confined = not is_own or checkpoint.checked_info(described, where=str(path)).dsl.tier == "2"
    if p is not None:
        found.check_sweep([p], where="p")
    found_there = Predecoder(
        name=name or "",
        checkpoint=str(path.resolve()),
        sha256=sha256_bytes(data),
        env_spec=found.spec.model_dump_json(),
        env_root=str(found.root),
        p=_reference_p(source, found) if p is None else p,
        order=order,
        device=device,
        is_confined=is_confined,
        code=None if is_own else str(code),
    )
    label = name or found_there.folder.name
    return replace(found_there, name=f"{label}-{order}" if order else label)


def _reference_p(source: str | Path, env: Environment) -> float:
    """An entry of the zoo names it; where nobody does, shots are decoded to find it, for up to a minute."""
    return zoo_entry(str(source)).metrics.reference_p if is_zoo_name(source) else reference_p(env)
