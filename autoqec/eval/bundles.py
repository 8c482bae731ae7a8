"""Bundles: the archived shots of a verification, bit-packed, named by the hash of their data.

Three kinds. A confirm bundle is fresh, made after the checkpoint was logged, and used once. A dev bundle is the same for
every checkpoint and claims nothing. An estimate bundle is fresh, too, and is kept for published effect sizes.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import shutil
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import stim
from pydantic import BaseModel, ConfigDict

from autoqec.envs.environment import Environment
from autoqec.envs.packing import width
from autoqec.envs.problem import U8
from autoqec.envs.sampling import Shots
from autoqec.errors import InputError
from autoqec.eval.secret import Secret
from autoqec.io import atomic
from autoqec.io.strict_yaml import read_json
from autoqec.io.validate import validate_model

Kind = Literal["confirm", "dev", "estimate"]

CHUNK = 10_000
"""Shots of one label: always sampled whole, so that they do not depend on how many are wanted. A multiple of 8."""


class Stream(BaseModel):
    """Shots at one p: `circuit` is the hash of what was sampled, `index` the p's place in the sweep, which names the files."""

    model_config = ConfigDict(extra="forbid")

    p: float
    circuit: str
    shots: int
    detectors: int
    observables: int
    index: int | None = None


class Meta(BaseModel):
    """`meta.json` of an archived bundle."""

    model_config = ConfigDict(extra="forbid")

    kind: Kind
    env_name: str
    env_hash: str
    labels: tuple[int, int]
    chunk: int
    streams: list[Stream]
    checkpoints: list[str]
    stim: str
    made: float


@dataclass
class Bundle:
    """Shots at every p of a sweep, on disk; while it is open, more can be added.

    labels: inclusive range that chunks take theirs from, in order, the same at every p.
    name: goes into the seeds; random for a fresh bundle. fixed: shots at the reference p, where that was settled before.
    """

    env: Environment
    kind: Kind
    folder: Path
    labels: tuple[int, int]
    name: str
    checkpoints: list[str]
    fresh: bool = True
    made: float = field(default_factory=time.time)
    fixed: int | None = None
    _shots: dict[float, int] = field(default_factory=dict)

    @property
    def capacity(self) -> int:
        """Maximum shots per p: one chunk per label."""
        return (self.labels[1] - self.labels[0] + 1) * CHUNK if self.fresh else min(self._shots.values())

    def shots(self, p: float) -> int:
        return self._shots.get(p, 0)

    def labels_used(self) -> list[int]:
        chunks = max(self._shots.values(), default=0) // CHUNK
        return list(range(self.labels[0], self.labels[0] + chunks))

    def files(self, p: float) -> tuple[Path, Path]:
        """Packed detectors and observables at p, one row per shot."""
        return _files(self.folder, self.env.spec.noise.p.index(p))

    def missing(self, p: float, shots: int) -> list[int]:
        """Labels of the chunks that are to be sampled for `shots` shots at p."""
        if shots > self.capacity:
            raise InputError(
                f"{shots} shots need more labels than {list(self.labels)}, {CHUNK} shots each",
                where="seed_policy.holdout",
                hint="widen the range, or ask for fewer shots",
            )
        return list(range(self.labels[0] + self.shots(p) // CHUNK, self.labels[0] + -(-shots // CHUNK)))

    def seed(self, secret: Secret, p: float, label: int) -> int:
        """Of the sampler of one chunk."""
        return secret.seed(self.kind, self.name, self.env.stream(p), label)

    def add(self, p: float, chunks: Iterable[Shots]) -> None:
        """Appends whole chunks, in the order of their labels."""
        for chunk in chunks:
            for path, rows in zip(self.files(p), chunk, strict=True):
                with path.open("ab") as file:
                    file.write(rows.tobytes())
            self._shots[p] = self.shots(p) + len(chunk.detectors)

    def seal(self, folder: Path) -> str:
        """Closes the bundle and archives it in `folder` under the hash of its data, which is returned."""
        identity = self._data_hash()
        streams = [
            Stream(
                p=p,
                circuit=self.env.stream(p),
                shots=n,
                detectors=self.env.problem(p).n_checks,
                observables=self.env.problem(p).n_observables,
                index=self.env.spec.noise.p.index(p),
            )
            for p, n in self._shots.items()
        ]
        meta = Meta(
            kind=self.kind,
            env_name=self.env.spec.name,
            env_hash=self.env.content_hash,
            labels=self.labels,
            chunk=CHUNK,
            streams=streams,
            checkpoints=self.checkpoints,
            stim=stim.__version__,
            made=self.made,
        )
        if self.fresh:
            target = folder / identity
            if target.exists():  # the same dev shots as before
                shutil.rmtree(self.folder)
            else:
                atomic.write_text(self.folder / "meta.json", meta.model_dump_json(indent=2) + "\n")
                self.folder.rename(target)
            self.folder, self.fresh = target, False
        return identity

    def _data_hash(self) -> str:
        return _data_hash({p: (self.env.stream(p), n, self.files(p)) for p, n in self._shots.items()})


def _files(folder: Path, index: int) -> tuple[Path, Path]:
    return folder / f"p{index}.dets.b8", folder / f"p{index}.obs.b8"


def _data_hash(streams: Mapping[float, tuple[str, int, tuple[Path, Path]]]) -> str:
    """streams: by p the circuit's hash, the shots and their files."""
    digest = hashlib.sha256(b"autoqec/bundle/v1")
    for p, (circuit, shots, files) in sorted(streams.items()):
        digest.update(json.dumps([p, circuit, shots]).encode())
        for path in files:
            digest.update(path.read_bytes())
    return digest.hexdigest()


def new_name(env: Environment, kind: Kind) -> str:
    """Of a bundle; fresh ones have a random one."""
    return f"{env.content_hash}/dev" if kind == "dev" else secrets.token_hex(16)


def open_bundle(
    env: Environment, kind: Kind, folder: Path, labels: tuple[int, int], checkpoints: list[str], name: str
) -> Bundle:
    """An empty bundle below `folder`."""
    draft = folder / f".open-{secrets.token_hex(8)}"
    draft.mkdir(parents=True, mode=0o700)
    return Bundle(env, kind, draft, labels, name, checkpoints)


def load_bundle(env: Environment, folder: Path, identity: str) -> Bundle:
    """An archived bundle, checked: its data must hash to its name, and come from this environment's circuits."""
    where = f"bundle {identity[:16]}"
    path = folder / identity
    if not identity.isalnum() or not (path / "meta.json").is_file():
        raise InputError("is not in the archive", where=where, hint=f"see {folder}")
    meta = validate_model(read_json(path / "meta.json", limit=1 << 20), Meta, where=where)
    known = {p: env.stream(p) for p in env.spec.noise.p}
    if any(known.get(stream.p) != stream.circuit for stream in meta.streams) or not meta.streams:
        raise InputError(
            f"was sampled from other circuits than those of {env.spec.name}",
            where=where,
            hint=f"it belongs to {meta.env_name}",
        )
    bundle = Bundle(env, meta.kind, path, meta.labels, "", meta.checkpoints, fresh=False, made=meta.made)
    bundle._shots = {stream.p: stream.shots for stream in meta.streams}
    if bundle._data_hash() != identity:
        raise InputError("does not hold the data that its name is the hash of", where=where)
    return bundle


def is_sealed(folder: Path, identity: str) -> bool:
    """Whether the bundle of that name is archived in `folder` and holds the data that its name is the hash of."""
    path = folder / identity
    try:
        meta = Meta.model_validate_json((path / "meta.json").read_bytes())
        streams = {
            each.p: (each.circuit, each.shots, _files(path, int(each.index)))  # type: ignore[arg-type]
            for each in meta.streams
        }
        return identity.isalnum() and _data_hash(streams) == identity
    except (OSError, ValueError, TypeError):
        return False


def sample_chunk(env: Environment, p: float, seed: int) -> Shots:
    """The chunk of one label, whose seed `Bundle.seed` says."""
    return env.sampler(p).sample(CHUNK, seed)


def read_rows(path: Path, bits: int, start: int, stop: int) -> U8:
    """Rows [start, stop) of a packed file."""
    row = width(bits)
    flat = np.fromfile(path, dtype=np.uint8, count=(stop - start) * row, offset=start * row)
    return flat.reshape(-1, row)
