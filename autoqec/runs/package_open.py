"""A stranger's package, unpacked in a folder for the time being: files as the manifest says, branches in a repository, environment.

Nothing in it names a file outside of it, and nothing outside of that folder is written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from urllib.parse import unquote

from autoqec.envs.environment import Environment
from autoqec.envs.load import builtin_names, env_file, load_env
from autoqec.envs.schema import EnvSpec
from autoqec.errors import InputError
from autoqec.io.git import Git, GitError
from autoqec.io.hashing import sha256_file
from autoqec.io.untrusted_file import read_regular
from autoqec.io.validate import load_model, validate_model
from autoqec.layout import PackageDir
from autoqec.runs.package_manifest import FORMAT, Manifest
from autoqec.runs.run import Run
from autoqec.runs.run_info import RunInfo
from autoqec.runs.tar_archive import unpack

MAX_JSON = 64 << 20


@dataclass(frozen=True)
class Package:
    """run: the packaged one, as if it were here, in the repository made of the bundle. env_sha256: of the environment's file.
    scratch: an empty folder for the check's own use."""

    files: PackageDir
    manifest: Manifest
    git: Git
    env: Environment
    env_sha256: str
    run: Run
    scratch: Path


@contextmanager
def opened(archive: Path) -> Iterator[Package]:
    """
    Raises:
        InputError: the archive is damaged, or something in it leads out of it.
    """
    with TemporaryDirectory(prefix="autoqec-package-") as folder:
        top = Path(folder).resolve()
        files = PackageDir(top / "package")
        files.path.mkdir()
        unpack(archive, files.path)
        manifest = _manifest(files, archive)
        _check_hashes(files, manifest, archive)
        git = Git(top / "repository")
        git.root.mkdir()
        git.initialise()
        _fetch(git, files, manifest, archive)
        path = _env_path(files, manifest)
        env = _environment(path, manifest)
        run = _run(files, manifest, git, str(path))
        scratch = top / "scratch"
        scratch.mkdir()
        yield Package(files, manifest, git, env, sha256_file(path), run, scratch)


def _manifest(files: PackageDir, archive: Path) -> Manifest:
    if not files.manifest.is_file():
        raise InputError("is not the package of a run: it has no manifest.json", where=str(archive))
    where = f"{archive}: {files.manifest.name}"
    try:
        data = json.loads(read_regular(files.manifest, limit=MAX_JSON))
    except (ValueError, RecursionError) as error:
        raise InputError(f"not valid JSON: {str(error)[:200]}", where=where) from None
    found = data.get("format") if isinstance(data, dict) else None
    if found != FORMAT:
        raise InputError(f"has format {str(found)[:40]!a}, and this AutoQEC reads {FORMAT}", where=where)
    return validate_model(data, Manifest, where=where)


def _check_hashes(package: PackageDir, manifest: Manifest, archive: Path) -> None:
    found = {path.relative_to(package.path).as_posix() for path in package.path.rglob("*") if path.is_file()}
    found.discard(package.manifest.name)
    if odd := sorted(found ^ manifest.files.keys()):
        raise InputError(f"its files are not those of its manifest: {', '.join(odd[:5])}", where=str(archive))
    bad = [name for name, digest in manifest.files.items() if sha256_file(package.path / name) != digest]
    if bad:
        raise InputError(f"files differ from their hashes: {', '.join(bad[:5])}", where=str(archive))


def _fetch(git: Git, package: PackageDir, manifest: Manifest, archive: Path) -> None:
    """Takes the refs of the manifest out of the bundle, and no others: all that it offers must be among them."""
    bundle = str(package.bundle.resolve())
    try:
        heads = git("bundle", "list-heads", bundle)
        offered = {ref: sha for sha, _, ref in (line.partition(" ") for line in heads.splitlines())}
        if offered != manifest.refs:
            odd = sorted(offered.items() ^ manifest.refs.items())
            raise InputError(
                f"its branches are not those of its manifest: {odd[0][0][:120]!a}", where=str(archive)
            )
        git("bundle", "verify", "--quiet", bundle)
        refspecs = "".join(f"{ref}:{ref}\n" for ref in manifest.refs)
        git(
            *("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--stdin", bundle),
            stdin=refspecs,
            variables={"GIT_ALLOW_PROTOCOL": "file"},
        )
        git("fsck", "--full", "--strict", "--no-dangling")
    except GitError as error:
        raise InputError(
            f"its git bundle is damaged: {error.stderr.strip()[:200]!a}", where=str(archive)
        ) from error
    if git.refs("refs/") != manifest.refs:
        raise InputError("its branches are not those of its manifest", where=str(archive))


def _env_path(package: PackageDir, manifest: Manifest) -> Path:
    inside = package.env / manifest.env
    if inside.is_file():
        return inside
    if manifest.env in builtin_names():
        return env_file(manifest.env)
    raise InputError(f"environment {manifest.env!a} is not in the package", where="manifest.json: env")


def _environment(path: Path, manifest: Manifest) -> Environment:
    if manifest.env in builtin_names() and path == env_file(manifest.env):
        env = load_env(manifest.env)
    else:
        spec = load_model(path, EnvSpec)
        _check_references(spec)
        env = Environment(spec, root=path.parent, origin=manifest.env)
    if env.content_hash != manifest.env_hash:
        raise InputError(
            f"{manifest.env} is another environment here than the package's",
            where="env",
            hint=f"use AutoQEC {manifest.autoqec_version}",
        )
    return env


def _check_references(spec: EnvSpec) -> None:
    """No file that the environment may refer to lies outside of its folder; links are in no package."""
    for text in (spec.code.source, spec.noise.dem):
        for word in re.split(r"[?&=():]", unquote(str(text or ""))):
            path = PurePosixPath(word)
            if path.is_absolute() or ".." in path.parts or "\\" in word or "\0" in word:
                raise InputError(f"refers to {word[:120]!a}, outside of the package", where="env")


def _run(package: PackageDir, manifest: Manifest, git: Git, env: str) -> Run:
    here = {"repository": str(git.root), "env": env}
    return Run(package.run, _info(package, manifest).model_copy(update=here))


def _info(package: PackageDir, manifest: Manifest) -> RunInfo:
    info = load_model(package.run / "run.json", RunInfo)
    for name in ("run_id", "base_commit"):
        if getattr(info, name) != getattr(manifest, name):
            raise InputError(f"is not the {name} of the manifest", where=f"run.json: {name}")
    if PurePosixPath(info.env).name != manifest.env:
        raise InputError(f"{info.env[:120]!a} is not the environment of the manifest", where="run.json: env")
    return info
