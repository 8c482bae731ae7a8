"""What is being verified: the checkpoint of a round, as data, and what the round's files claim about it.

Nothing here is believed. The checkpoint is parsed in the sandbox; claims are kept to be compared with what is measured.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from autoqec.decoders.backends import backend_entry
from autoqec.decoders.checkpoint_format import BRANCH, MAX_BYTES, check_archive
from autoqec.decoders.cost_basis import learned_numbers
from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.envs.environment import Environment
from autoqec.errors import InputError, UnavailableError
from autoqec.eval.model_code import ModelCode, at_commit, installed
from autoqec.io.git import Git
from autoqec.io.hashing import sha256_bytes
from autoqec.io.untrusted_file import read_regular
from autoqec.io.validate import validate_model
from autoqec.layout import RoundDir, VerifierDir, experiments_folder
from autoqec.sandbox.confined import Refused, WorkerDied
from autoqec.sandbox.kinds import Sandbox
from autoqec.sandbox.wire import one_line
from autoqec.sandbox.worker import ModelWorker

_MAX_CLAIMS = 8 << 20
_READING_S = 60.0


MAX_CONFIG = 20_000
"""Characters of a config: it describes a model, and is not the place for a table."""


def _is_short(dsl: dict[str, Any]) -> dict[str, Any]:
    if len(json.dumps(dsl)) > MAX_CONFIG:
        raise ValueError(f"a config has at most {MAX_CONFIG} characters")
    return dsl


Label = Annotated[int, Field(ge=-(2**62), le=2**62)]


class Described(BaseModel):
    """The part of a checkpoint's description that its user needs; the DSL may be that of another commit."""

    model_config = ConfigDict(extra="ignore")

    dsl: Annotated[dict[str, Any], AfterValidator(_is_short)]
    output_mode: Literal["hard_flip", "soft_priors"]
    env_name: str = Field(max_length=200)
    env_hash: str = Field(max_length=200)
    seed: int | None = None
    train_labels: tuple[Label, Label]
    versions: dict[str, str] = Field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Subject:
    """One checkpoint. state: its weights by name. dsl: as plain data; `config` is None where this version's schema does
    not know it. metrics, manifest, pointer, config_file: what lies beside it, unbelieved; None if absent or unreadable."""

    round_dir: Path
    sha256: str
    state: Mapping[str, npt.NDArray[Any]]
    dsl: dict[str, Any]
    output_mode: Literal["hard_flip", "soft_priors"]
    train_labels: tuple[int, int]
    code: ModelCode
    env_hash: str = ""
    seed: int | None = None
    branch: str | None = None
    metrics: dict[str, Any] | None = None
    manifest: dict[str, Any] | None = None
    pointer: dict[str, Any] | None = None
    config_file: bytes | None = None
    hashes: Mapping[str, str] = field(default_factory=dict)

    @property
    def config(self) -> PredecoderDSL | None:
        try:
            return PredecoderDSL.model_validate_json(json.dumps(self.dsl))
        except ValidationError:
            return None

    @property
    def holds_code(self) -> bool:
        """Whether code that is not this package's runs in the worker: a tier-2 config, or that of a commit."""
        return not self.code.is_trusted or self.config is None or self.config.tier == "2"

    @property
    def n_params(self) -> int:
        """As training counts them."""
        return learned_numbers({name: (array.size, array.nbytes) for name, array in self.state.items()})

    @property
    def n_bytes(self) -> int:
        return int(sum(array.nbytes for array in self.state.values()))


def checkpoint_bytes(round_dir: Path) -> bytes:
    """The file, if its zip directory and the names in its pickle are those of plain weights. Nothing is unpacked."""
    path = RoundDir(round_dir).checkpoint
    if not round_dir.is_dir():
        raise InputError("is not a folder", where=str(round_dir), hint="give the folder of a round")
    data = read_regular(path, limit=MAX_BYTES, hint="give the folder of a round that has a checkpoint.pt")
    check_archive(data, where=str(path))
    return data


def read_subject(
    round_dir: Path,
    env: Environment,
    sandbox: Sandbox,
    home: VerifierDir,
    repo: Path | None,
    kernels: Path | None = None,
) -> Subject:
    """The subject of a round, or an InputError that says why it cannot be one. Its model can be built on `env`.

    kernels: folder of compiled ones for the processes that read it.
    """
    path, data = RoundDir(round_dir).checkpoint, checkpoint_bytes(round_dir)
    with ModelWorker(sandbox, cache=kernels, request_s=_READING_S) as reader:
        with _refusals(path, "train the round again"):
            described, state = reader.read_checkpoint(data)
        info = validate_model(described, Described, where=str(path))
        if info.env_hash != env.content_hash:
            raise InputError(
                f"the checkpoint belongs to {one_line(info.env_name)}, or to another version of {env.spec.name}",
                where=str(path),
                hint="give the environment that the round was trained on",
            )
        subject = _with_claims(RoundDir(round_dir), data, info, state, home, repo)
        # Code in a config is metered beside this package's own, in another process: it keeps the folder of its commit.
        if subject.config is not None and subject.config.tier == "1":
            subject = replace(subject, code=subject.code.or_installed())
        if subject.code.is_trusted and subject.config is None:
            validate_model(subject.dsl, PredecoderDSL, where=str(path))  # says what is wrong with it
        if subject.holds_code and not sandbox.confines:
            raise UnavailableError(
                "holds code, which runs in a sandbox only, and no sandbox works on this machine",
                where=str(path),
                hint="see autoqec doctor",
            )
        with ExitStack() as stack:
            worker = reader
            if not subject.code.is_trusted:
                worker = stack.enter_context(
                    ModelWorker(sandbox, subject.code.root, cache=kernels, request_s=_READING_S)
                )
            stack.enter_context(_refusals(path, "was it trained on this environment, by this version?"))
            problem = env.built_problem(env.spec.noise.p[0])
            worker.hold_model(
                worker.hold_problem(problem),
                problem,
                subject.dsl,
                subject.state,
                output_mode=subject.output_mode,
                wants_edges=backend_entry(env.spec.classical_backend).wants_edges,
            )
    return subject


@contextmanager
def _refusals(path: Path, hint: str) -> Iterator[None]:
    """What a worker says no to, or dies of, as an error about the checkpoint."""
    try:
        yield
    except Refused as error:
        raise InputError(error.what, where=str(path), hint=hint) from None
    except WorkerDied as error:
        raise InputError(f"its process {error.what}", where=str(path), hint=hint) from None


def _with_claims(
    files: RoundDir,
    data: bytes,
    info: Described,
    state: Mapping[str, npt.NDArray[Any]],
    home: VerifierDir,
    repo: Path | None,
) -> Subject:
    metrics, pointer = _claims(files.metrics), _pointer(files)
    _, branch = _commit(pointer, metrics)
    code = code_of_round(files, info, home, repo)
    config = _small(files.config)
    hashes = {files.checkpoint.name: sha256_bytes(data)}
    if config is not None:
        hashes[files.config.name] = sha256_bytes(config)
    return Subject(
        round_dir=files.path,
        sha256=sha256_bytes(data),
        state={name: np.array(array) for name, array in state.items()},
        dsl=info.dsl,
        output_mode=info.output_mode,
        train_labels=info.train_labels,
        code=code,
        env_hash=info.env_hash,
        seed=info.seed,
        branch=branch,
        metrics=metrics,
        manifest=_claims(files.manifest),
        pointer=pointer,
        config_file=config,
        hashes=hashes,
    )


def code_of_round(files: RoundDir, info: Described, home: VerifierDir, repo: Path | None = None) -> ModelCode:
    """The code that made the round's model: that of its commit, exported below `home`, if it says that it has one; else this
    package's own."""
    pointer = _pointer(files)
    commit, _ = _commit(pointer, _claims(files.metrics))
    if commit is not None:
        return at_commit(_repository(repo, files.path, pointer), commit, home)
    if (branch := info.versions.get(BRANCH)) is not None:
        raise InputError(
            f"was trained by code of its branch, {one_line(branch)}, and nothing beside it names the commit",
            where=str(files.path),
            hint="give the folder of the round as it was trained, with its metrics.json",
        )
    return installed()


def _pointer(files: RoundDir) -> dict[str, Any] | None:
    pointers = files.pointers
    return _claims(pointers[0]) if len(pointers) == 1 else None


def _small(path: Path) -> bytes | None:
    try:
        return read_regular(path, limit=_MAX_CLAIMS)
    except InputError:
        return None


def _claims(path: Path) -> dict[str, Any] | None:
    data = _small(path)
    try:
        value = json.loads(data) if data is not None else None
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _commit(pointer: dict[str, Any] | None, metrics: dict[str, Any] | None) -> tuple[str | None, str | None]:
    for claims in (pointer, metrics):
        if claims is not None and isinstance(claims.get("commit_sha"), str):
            branch = claims.get("branch")
            return claims["commit_sha"], one_line(branch if isinstance(branch, str) else "") or "(unnamed)"
    return None, None


def _is_folder(folder: Path, claimed: str) -> bool:
    try:
        return folder.resolve() == Path(claimed).resolve()
    except (OSError, ValueError, RuntimeError):  # a name that no file can have
        return False


def _repository(given: Path | None, round_dir: Path, pointer: dict[str, Any] | None) -> Path:
    """The repository of a round: as given, that of the working directory or of this package, or AutoQEC's own in the
    working directory.

    Neither the pointer's word nor a repository inside the round's folder is taken: both are the round's own making.
    """
    if given is not None:
        return given
    provenance = pointer.get("provenance") if pointer is not None else None
    claimed = provenance.get("repo_root_resolved") if isinstance(provenance, dict) else None
    for folder in (Path.cwd(), installed().root):
        top = Git(folder, trusted=False).top()
        if top is not None and (claimed is None or _is_folder(top, str(claimed))):
            return top
    own = experiments_folder(Path.cwd())
    for folder in own.iterdir() if own.is_dir() else ():
        if claimed is not None and _is_folder(folder, str(claimed)):
            return folder
    raise InputError(
        "the round has a commit, and its repository is not that of the working directory",
        where=str(round_dir),
        hint="start in the folder that the run was started in, or give its repository (--repo)",
    )
