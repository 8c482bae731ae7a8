"""The only place that knows where files live and what they are called. Own code, not platformdirs: the data folder is one variable of the contract."""

from __future__ import annotations

import os
import re
from pathlib import Path

from autoqec.errors import InputError
from autoqec.io.untrusted_file import is_there

_ROUND = re.compile(r"0|[1-9][0-9]{0,8}")
_STAMP = re.compile(r"[0-9]{8}-[0-9]{6}")
_NAME = re.compile(r"(?=.{1,40}$)[A-Za-z][A-Za-z0-9_]*(-[A-Za-z0-9_]+)*", re.ASCII)


def cache_root() -> Path:
    """Folder for things that can be rebuilt: `$AUTOQEC_CACHE`, else `autoqec` in the user's cache folder."""
    if chosen := os.environ.get("AUTOQEC_CACHE"):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "autoqec"


def problem_cache(key: str) -> Path:
    """The cached arrays of one decoding problem, named by content hash."""
    return cache_root() / "problems" / f"{key}.bin"


def failure_cache(stream: str, key: str) -> Path:
    """Failure bits of one decoder on one stream of shots."""
    return cache_root() / "failures" / stream / f"{key}.bin"


def round_cache(key: str) -> Path:
    """Which cached files a round of one environment uses, by name."""
    return cache_root() / "rounds" / f"{key}.json"


def compiled_kernels(key: str) -> Path:
    """There once the installed package's kernels have been compiled, by their content."""
    return cache_root() / "compiled" / key


def data_root() -> Path:
    """Folder for things that cannot be rebuilt: `$AUTOQEC_HOME`, else `autoqec` in the user's data folder."""
    if chosen := os.environ.get("AUTOQEC_HOME"):
        return Path(chosen)
    base = os.environ.get("XDG_DATA_HOME")
    return (Path(base) if base else Path.home() / ".local" / "share") / "autoqec"


class VerifierDir:
    """What the verifier keeps to itself: its secret, the ledger of confirmations, archived shots, exported model code."""

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = Path(path) if path is not None else data_root() / "verifier"
        self.secret = self.path / "secret"
        self.ledger = self.path / "ledger.jsonl"
        self.lock = self.path / "lock"
        self.bundles = self.path / "bundles"
        self.code = self.path / "code"


class KernelDir:
    """The verifier's compiled kernels, for all its homes: `$AUTOQEC_KERNELS`, else in the data folder. Nobody else may write there."""

    def __init__(self, path: str | Path | None = None) -> None:
        chosen = path or os.environ.get("AUTOQEC_KERNELS")
        self.path = Path(chosen) if chosen else data_root() / "kernels"
        self.secret = self.path / "secret"
        self.lock = self.path / "lock"

    def version(self, key: str) -> Path:
        """Those of one version of the sources, as one numba compiled them."""
        return self.path / key


class RoundDir:
    """The files of one round. confined: a folder like this one, and the only place where a confined training writes."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.config = self.path / "config.yaml"
        self.train_log = self.path / "train.log"
        self.checkpoint = self.path / "checkpoint.pt"
        self.metrics = self.path / "metrics.json"
        self.manifest = self.path / "artifact_manifest.json"
        self.training_state = self.path / "training_state.pt"
        self.output = self.path / "runner.log"
        self.report = self.path / "verification_report.json"
        self.report_text = self.path / "verification_report.md"
        self.pointer = self.path / f"{self.path.name}_pointer.json"
        self.lock = self.path / ".training.lock"
        self.confined = self.path / ".training"
        self.weights = self.path / "checkpoint.safetensors"
        self.initial = self.path / "initial.pt"
        self.train_shots = self.path / "train_shots.sha256"

    @property
    def pointers(self) -> list[Path]:
        """The pointer files here: one per round, `round_<N>_pointer.json`."""
        return sorted(self.path.glob("round_*_pointer.json"))


class RunDir:
    """The files in the root of one run."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.about = self.path / "run.json"
        self.history = self.path / "history.jsonl"
        self.history_array = self.path / "history.json"
        self.plan = self.path / "plan.json"
        self.log = self.path / "log.md"
        self.summary = self.path / "summary.md"
        self.fork_graph = self.path / "fork_graph.json"
        self.candidate_pareto = self.path / "candidate_pareto.json"
        self.in_flight = self.path / "in_flight"
        self.lock = self.path / ".run.lock"
        self.state_lock = self.path / ".state.lock"
        self.pareto = self.path / "pareto.json"
        self.pareto_preview = self.path / "pareto_preview.json"
        self.pareto_within_noise = self.path / "pareto_within_noise.json"
        self.pareto_dominated = self.path / "pareto_dominated.json"
        self.pareto_lock = self.path / ".pareto.lock"
        self.llm_ledger = self.path / "llm_ledger.jsonl"
        self.llm_calls = self.path / "llm_calls.jsonl"

    def round(self, number: int) -> RoundDir:
        return RoundDir(self.path / f"round_{_checked(number)}")

    def rounds(self) -> list[int]:
        """The numbers of the rounds that have a folder."""
        names = (path.name.removeprefix("round_") for path in self.path.glob("round_*"))
        return sorted(int(name) for name in names if _ROUND.fullmatch(name))

    def journal(self, number: int) -> Path:
        """There exactly while the round is in flight."""
        return self.in_flight / f"round_{_checked(number)}.json"

    def guard(self, number: int) -> Path:
        """Locked while a process of the round is alive."""
        return self.in_flight / f".round_{_checked(number)}.lock"


def _checked(number: int) -> int:
    """The number of a round may come from a file that anybody wrote: what is not such a number names no folder."""
    if type(number) is not int or not 0 <= number < 10**9:
        raise InputError(f"{str(number)[:40]!a} cannot number a round", where="round")
    return number


class ExperimentDir:
    """What a round changes, inside a checkout: one file per mechanism, and a folder for the record of each round."""

    NAME = "experiment"

    def __init__(self, checkout: str | Path) -> None:
        self.path = Path(checkout) / self.NAME
        self.custom = self.path / "custom"
        self.rounds = self.path / "rounds"

    def options(self, mechanism: str) -> Path:
        return self.path / f"{mechanism}.yaml"

    def code(self, slot: str) -> Path:
        return self.custom / f"{slot}.py"

    def params(self, slot: str) -> Path:
        return self.custom / f"{slot}.yaml"

    def record(self, run_id: str, number: int) -> RoundRecord:
        return RoundRecord(self.rounds / run_id / f"round_{number}")


class RoundRecord:
    """What the branch of a round says about it. A folder of its own, so that the records of two branches merge."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.yaml"
        self.attempt = path / "attempt.json"
        self.pointer = path / f"{path.name}_pointer.json"


def example_configs() -> dict[str, Path]:
    """The configs that come with the package, by name."""
    folder = Path(__file__).parent / "example_db"
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def config_file(given: str | Path) -> Path:
    """What a user calls a predecoder config: a file; or, where nothing has that path, the name of an example."""
    named = example_configs().get(str(given))
    return Path(given) if named is None or is_there(Path(given)) else named


ZOO = "zoo:"
"""How the name of an entry of the zoo begins where a round is asked for: zoo:ENV/NAME."""


def zoo_folder() -> Path:
    """The predecoders that come with the package, as ENV/NAME."""
    return Path(__file__).parent / "zoo"


class EntryDir(RoundDir):
    """The files of an entry of the zoo: those of a round, what it is in words, and where it comes from."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self.card = self.path / "card.md"
        self.provenance = self.path / "provenance.json"


def runs_folder(workspace: str | Path) -> Path:
    return Path(workspace) / "runs"


def is_stamp(run_id: str) -> bool:
    """Whether a run is called by the time it began."""
    return _STAMP.fullmatch(run_id) is not None


def is_run_id(text: str) -> bool:
    """Whether a run may be called so: a time, or letters, digits, underscores and single dashes after a letter, which any folder and
    git ref can have. Only a time begins with a digit, so that neither passes for the other in the name of a worktree."""
    return is_stamp(text) or _NAME.fullmatch(text) is not None


def in_runs(given: str | Path, workspace: str | Path) -> Path:
    """What a user calls a run or something in it: a path; or, where nothing has that path, the id of a run and what follows it."""
    path = Path(given)
    named = runs_folder(workspace) / path
    is_named = not path.is_absolute() and bool(path.parts) and is_run_id(path.parts[0])
    return named if is_named and not is_there(Path(workspace) / path) and is_there(named) else path


def worktree_prefix(run_id: str) -> str:
    """How the worktrees of a run begin. Names have no two dashes in a row: the first two end the name."""
    return f"exp-{run_id}-" if is_stamp(run_id) else f"exp-{run_id}--"


def experiments_folder(workspace: str | Path) -> Path:
    """The repositories that AutoQEC makes in a user's workspace, one per version of its code."""
    return Path(workspace) / ".autoqec" / "experiments"


def worktrees_folder(repository: str | Path) -> Path:
    return Path(repository) / ".worktrees"


class PackageDir:
    """A packaged run, unpacked."""

    RUN = "run"

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.manifest = self.path / "manifest.json"
        self.bundle = self.path / "branches.bundle"
        self.env = self.path / "env"
        self.run = self.path / self.RUN
        self.cards = self.path / "cards"
