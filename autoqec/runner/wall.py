"""The walls around a training whose code is not the installed package's own.

It sees the system, the interpreter, its own code and the files of its environment; it writes in a folder below the round's and in its
scratch folder. No home, no caches of others, no network, no other processes, and never the verifier's folder.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from autoqec import layout
from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.envs.environment import Environment
from autoqec.layout import KernelDir, RoundDir, VerifierDir
from autoqec.runner.failure_kinds import RoundFailed
from autoqec.runner.schema import Failure, RunnerConfig
from autoqec.runner.warm import kind_of
from autoqec.sandbox import gpu
from autoqec.sandbox.clean_env import clean_environment
from autoqec.sandbox.installed import installed_root, is_same_package, python_path
from autoqec.sandbox.kernel_cache import copy_kernels, ensure_compiled, kernels_for
from autoqec.sandbox.kinds import shows, strongest

_NO_GPU = "without the GPU, which the {kind} sandbox cannot reach (install bubblewrap)"


@dataclass(frozen=True)
class Code:
    """What a round's process runs. root: the folder that holds its `autoqec`. is_own: nobody but this package wrote any of it."""

    root: Path
    is_own: bool


def code_of(config: RunnerConfig, dsl: PredecoderDSL) -> Code:
    """The code of a worktree that is the same as the installed one, or that has none, is not imported from there: the installed one
    is. A worktree that this very process was started from has nothing to be compared with."""
    own = installed_root()
    if config.code_cwd is None:
        return Code(own, dsl.tier == "1")
    root = Path(config.code_cwd).resolve()
    if root != own and (not os.path.lexists(root / "autoqec") or is_same_package(root)):
        return Code(own, dsl.tier == "1")
    return Code(root, False)


@dataclass(frozen=True)
class Start:
    """How a process is started. remark: what the reader of its results should know."""

    command: list[str]
    variables: dict[str, str]
    cwd: Path
    remark: str | None = None


def ready(
    code: Code, env: Environment, dsl: PredecoderDSL, *, compiling: Callable[[], None] | None = None
) -> None:
    """Has this package compile what such rounds run, once on a machine: a confined round cannot keep what it compiles.

    compiling: called first, if that is due.
    """
    if not code.is_own:
        words = (env.spec.classical_backend, json.dumps(kind_of(dsl)))
        ensure_compiled("autoqec.runner.warm", *words, begun=compiling)


def confined(command: list[str], code: Code, env: Environment, files: RoundDir, scratch: Path) -> Start:
    """
    Raises:
        RoundFailed: no sandbox works on this machine, or the verifier's folder could not be hidden.
    """
    sandbox = strongest()
    if not sandbox.confines:
        hint = "see autoqec doctor"
        message = (
            "code that is not the installed package's own needs a sandbox, and no sandbox works on this machine: "
            f"{hint}"
        )
        raise RoundFailed(Failure("no_sandbox", message, hint=hint))
    readable = [code.root / name for name in ("autoqec", "cli") if (code.root / name).is_dir()]
    readable += [*_files(env), *gpu.facts()]
    writable = [files.confined, scratch]
    numba = scratch / "numba"
    numba.mkdir()
    copy_kernels(kernels_for(code.root), numba)
    return Start(
        sandbox.wrap(
            command,
            readable=readable,
            writable=writable,
            hidden=_hidden([*readable, *writable], writable),
            devices=gpu.nodes(),
        ),
        {
            **clean_environment(scratch, numba=numba),
            "AUTOQEC_CACHE": str(scratch / "cache"),
            "PYTHONDONTWRITEBYTECODE": "1",
            **python_path(code.root),
        },
        code.root if not code.root.is_relative_to(sys.prefix) else scratch,
        None if sandbox.reaches_gpus or not gpu.nodes() else _NO_GPU.format(kind=sandbox.name),
    )


def _files(env: Environment) -> list[Path]:
    """Files alone: the folder that holds them may be the user's home."""
    spec = Path(env.origin).resolve()
    return [*env.files, *([spec] if spec.is_file() and spec.parent == env.root.resolve() else [])]


def _hidden(shown: list[Path], writable: list[Path]) -> list[Path]:
    """The verifier's folders, where something that is shown holds them."""
    hidden = []
    for folder in (path.absolute() for path in (layout.data_root(), VerifierDir().path, KernelDir().path)):
        place = folder.resolve()
        if any(path.resolve().is_relative_to(place) for path in shown):
            continue
        if any(place.is_relative_to(path.resolve()) for path in shown) or shows(place):
            place.mkdir(parents=True, exist_ok=True)  # what is made later could not be covered
            hidden.append(folder)
    verifier = VerifierDir().path.resolve()
    if any(
        path.resolve().is_relative_to(verifier) or verifier.is_relative_to(path.resolve())
        for path in writable
    ):
        message = f"the round's folder and the verifier's, {verifier}, lie in each other"
        raise RoundFailed(Failure("not_writable", message, hint="set AUTOQEC_HOME to a folder elsewhere"))
    return hidden
