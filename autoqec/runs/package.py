"""A run as one archive: artifacts, reports, the branches as a git bundle, the environment, and the hash of every file."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from autoqec import __version__
from autoqec.envs.environment import Environment
from autoqec.envs.load import builtin_names, load_env
from autoqec.envs.sources.referenced import referenced
from autoqec.errors import InputError
from autoqec.eval import pareto
from autoqec.io.hashing import sha256_file
from autoqec.io.validate import validate_model
from autoqec.layout import PackageDir, RoundDir, RunDir
from autoqec.runs import fork_graph, run_log
from autoqec.runs.package_manifest import FORMAT, Manifest
from autoqec.runs.plan import read_plan
from autoqec.runs.repository import base_ref
from autoqec.runs.run import Run
from autoqec.runs.snapshot import Snapshots
from autoqec.runs.tar_archive import pack


def package_run(run: Run, target: Path, cards: Mapping[str, str] | None = None) -> Manifest:
    """Writes the archive, whole or not at all; the caller holds the run. Rounds in flight are left out: finish them first.

    cards: model cards by file name, for readers: nothing is checked by them.
    """
    if run.journals():
        raise InputError(
            "has rounds in flight", where=str(run.files.path), hint="let the run end, or resume it"
        )
    if not target.parent.is_dir():
        raise InputError("is not a folder", where=str(target.parent), hint="make it first")
    _publish(run)
    with tempfile.TemporaryDirectory(prefix=".autoqec-package-", dir=target.parent) as scratch:
        stage = PackageDir(Path(scratch))
        env = load_env(run.info.env)
        name = _copy_env(env, run.info.env, stage)
        refs = _bundle(run, stage)
        for card, text in (cards or {}).items():
            stage.cards.mkdir(exist_ok=True)
            (stage.cards / card).write_text(text)
        files = {**_run_files(run.files), **_staged(stage)}
        facts = {
            "format": FORMAT,
            "autoqec_version": __version__,
            "run_id": run.run_id,
            "env": name,
            "env_hash": env.content_hash,
            "base_commit": run.info.base_commit,
            "refs": refs,
            "files": {name: sha256_file(path) for name, path in sorted(files.items())},
        }
        manifest = validate_model(facts, Manifest, where=str(run.files.path))
        stage.manifest.write_text(json.dumps(manifest.model_dump(), indent=1, ensure_ascii=False) + "\n")
        draft = stage.path / "draft.tar.gz"
        pack(draft, {**files, stage.manifest.name: stage.manifest})
        draft.replace(target)
    return manifest


def _publish(run: Run) -> None:
    """Writes anew what follows from history and front: the package is checked to hold exactly that."""
    run.history.publish()
    fork_graph.publish(run)
    if run.files.pareto.exists():
        pareto.publish(run.files.path)
    if run.files.plan.is_file():
        plan = read_plan(run.files)
        run_log.publish(run, plan, Snapshots(run, plan).context())


def _run_files(files: RunDir) -> dict[str, Path]:
    """What a run folder holds for readers: no locks, no journals, no state of unfinished training."""
    found = {}
    for path in sorted(files.path.rglob("*")):
        name = path.relative_to(files.path)
        hidden = any(part.startswith(".") for part in name.parts) or name.parts[0] == files.in_flight.name
        unfinished = path.name == RoundDir(path.parent).training_state.name
        if path.is_file() and not path.is_symlink() and not hidden and not unfinished:
            found[f"{PackageDir.RUN}/{name.as_posix()}"] = path
    return found


def _staged(stage: PackageDir) -> dict[str, Path]:
    return {
        path.relative_to(stage.path).as_posix(): path
        for folder in (stage.env, stage.cards, stage.bundle)
        for path in ([folder] if folder.is_file() else sorted(folder.rglob("*")))
        if path.is_file()
    }


def _bundle(run: Run, stage: PackageDir) -> dict[str, str]:
    git = run.repository.reader
    refs = {base_ref(run.run_id): run.info.base_commit}
    for kind in ("exp", "quarantine"):
        refs |= git.refs(f"refs/heads/{kind}/{run.run_id}/")
    git("bundle", "create", "--quiet", str(stage.bundle.resolve()), *refs)
    return refs


def _copy_env(env: Environment, given: str, stage: PackageDir) -> str:
    """The environment's file and those it refers to; a builtin one goes by its name."""
    if given in builtin_names():
        return given
    source = Path(given)
    stage.env.mkdir()
    shutil.copyfile(source, stage.env / source.name)
    for name in referenced(env.spec):
        path = source.parent / name
        if Path(name).is_absolute() or not path.resolve().is_relative_to(source.parent.resolve()):
            raise InputError(
                f"refers to {name}, which lies outside its folder",
                where=str(source),
                hint="move the file beside the environment",
            )
        (stage.env / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, stage.env / name)
    if load_env(stage.env / source.name).content_hash != env.content_hash:
        raise InputError("refers to files that the package misses", where=str(source))
    return source.name
