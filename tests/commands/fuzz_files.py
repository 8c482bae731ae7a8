"""Good files made bad: every field dropped or replaced, text cut short, garbled, or not what it should be at all."""

from __future__ import annotations

import copy
import io
import json
import tarfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import yaml
from fuzz_player import Case
from fuzz_scene import Scene, environment

HUGE = 10**400
NESTED = "<nested>"
"""Stands in a value for lists in lists, 100,000 deep, which Python's own JSON cannot write."""
DROPPED = "<dropped>"
VALUES: tuple[Any, ...] = (
    DROPPED, None, True, -1, 0, 2**40, HUGE, float("nan"), float("inf"), 1e308, "", "x" * 10**6, "a\nb", "\ud800", "-x",
    "../../x", [], {}, [None], {"": []}, [[1, "a"], 2], NESTED,
)  # fmt: skip
"""Put in the place of every field in turn."""


@dataclass(frozen=True)
class Mutant:
    """A file of the scene with other content, and what was done to it."""

    path: Path
    content: bytes | Callable[[], bytes] | None
    what: str

    @contextmanager
    def in_place(self) -> Iterator[None]:
        good = self.path.read_bytes()
        if self.content is None:
            self.path.unlink()
        else:
            self.path.write_bytes(self.content() if callable(self.content) else self.content)
        try:
            yield
        finally:
            self.path.write_bytes(good)


def text_of(value: Any) -> str:
    return json.dumps(value).replace(json.dumps(NESTED), "[" * 100_000 + "]" * 100_000)


def _places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every field, of mappings and of the first entry of lists."""
    items = (
        list(value.items())
        if isinstance(value, dict)
        else list(enumerate(value[:1]))
        if isinstance(value, list)
        else []
    )
    for key, inner in items:
        yield (*at, key)
        yield from _places(inner, (*at, key))


def structural(data: Any) -> Iterator[tuple[str, Any]]:
    """What was done, and the data with one field changed; first the whole replaced."""
    for value in VALUES[1:]:
        yield f"all = {_short(value)}", value
    for place in _places(data):
        for value in VALUES:
            changed = copy.deepcopy(data)
            inside = changed
            for key in place[:-1]:
                inside = inside[key]
            if value is DROPPED:
                del inside[place[-1]]
            else:
                inside[place[-1]] = copy.deepcopy(value)
            yield f"{'.'.join(map(str, place))} = {_short(value)}", changed


def _short(value: Any) -> str:
    text = "10**400" if value is HUGE else repr(value)
    return text if len(text) < 30 else f"{text[:20]}...({len(text)})"


def damaged(data: bytes) -> Iterator[tuple[str, bytes | None]]:
    """The same file cut short, garbled, doubled, and in other encodings."""
    yield "missing", None
    yield "empty", b""
    yield "a byte order mark", b"\xef\xbb\xbf"
    for share in (1, 3, 5, 7):
        yield f"cut at {share}/8", data[: len(data) * share // 8]
    yield "without its last byte", data[:-1]
    for i in range(4):
        at = len(data) * (2 * i + 1) // 8
        yield f"garbled at {2 * i + 1}/8", data[:at] + b'\xff\x00{["' + data[at + 4 :]
    yield "twice", data + data
    yield "UTF-16", data.decode("latin-1").encode("utf-16")
    yield "zeros", bytes(len(data))
    yield "nested", b"[" * 100_000
    yield "nested mappings", b'{"a":' * 100_000


def json_mutants(path: Path) -> Iterator[Mutant]:
    data = json.loads(path.read_text())
    for what, value in structural(data):
        yield Mutant(path, text_of(value).encode("utf-8", "surrogatepass"), what)
    if isinstance(data, dict):
        first = next(iter(data))
        yield Mutant(path, (path.read_text().rstrip()[:-1] + f', "{first}": 1}}').encode(), "a key twice")
    yield from byte_mutants(path)


def lines_mutants(path: Path) -> Iterator[Mutant]:
    """Of a file of rows: each field of the first row, and the row twice."""
    first, *rest = path.read_text().splitlines(keepends=True)
    for what, value in structural(json.loads(first)):
        row = text_of(value).encode("utf-8", "surrogatepass") + b"\n"
        yield Mutant(path, row + "".join(rest).encode(), what)
    yield Mutant(path, (first + first + "".join(rest)).encode(), "a row twice")
    yield from byte_mutants(path)


def yaml_mutants(path: Path) -> Iterator[Mutant]:
    """JSON is YAML, and says deep nesting and huge numbers in the same words."""
    for what, value in structural(yaml.safe_load(path.read_text())):
        yield Mutant(path, text_of(value).encode("utf-8", "surrogatepass"), what)
    yield from byte_mutants(path)


def byte_mutants(path: Path) -> Iterator[Mutant]:
    for what, data in damaged(path.read_bytes()):
        yield Mutant(path, data, what)


def package_mutants(path: Path) -> Iterator[Mutant]:
    """The archive damaged as bytes; and archives whose members are, each with its right hash."""
    yield from byte_mutants(path)
    with tarfile.open(path) as tar:
        members = {entry.name: tar.extractfile(entry).read() for entry in tar}  # type: ignore[union-attr]
    for name in (
        "manifest.json",
        "run/history.jsonl",
        "run/round_1/verification_report.json",
        "branches.bundle",
    ):
        good = members[name]
        if name.endswith("json"):
            changes = (
                (what, text_of(value).encode("utf-8", "surrogatepass"))
                for what, value in structural(json.loads(good))
            )
        elif name.endswith("jsonl"):
            first, _, rest = good.partition(b"\n")
            changes = (
                (what, text_of(value).encode("utf-8", "surrogatepass") + b"\n" + rest)
                for what, value in structural(json.loads(first))
            )
        else:
            changes = ((what, data or b"") for what, data in damaged(good))
        for what, data in changes:
            yield Mutant(path, partial(_packed, {**members, name: data}, name), f"{name}: {what}")


def _packed(members: dict[str, bytes], changed: str) -> bytes:
    if changed != "manifest.json":
        manifest = json.loads(members["manifest.json"])
        manifest["files"][changed] = sha256(members[changed]).hexdigest()
        members["manifest.json"] = json.dumps(manifest).encode()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=1) as tar:
        for name, data in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


SHOTS: dict[str, tuple[bytes, ...]] = {
    "01": (b"012\n", b"0\n", b"000\n", b"0 1\n", b"01\n\n01\n", b"\xff\n", b"01", b"-1\n"),
    "b8": (b"", b"\xff", b"\x00\x00\x00"),
    "r8": (b"\xff", b"\x01", b"\x05", b"\x00\x00\x00\x00", b"\xff" * 1000),
    "hits": (b"10000000000\n", b"-1\n", b"0,0\n", b"0,\n", b",\n", b"2\n", b"x\n", b"1" * 5000 + b"\n", b"0 1\n", b"18446744073709551616\n"),
    "dets": (
        b"shot D10000000000\n", b"shot D-1\n", b"shot D0 D0\n", b"shot D2\n", b"shot L10000000000\n", b"shot L0\n", b"shot M0\n",
        b"shot X\n", b"D0\n", b"shot D" + b"9" * 5000 + b"\n", b"shot D18446744073709551616\n", b"shot", b"shot D\n",
    ),
    "ptb64": (b"", b"\x00", b"\x00" * 17, b"\xff" * 16),
}  # fmt: skip
"""Recorded shots of another model, or of none, for one of two detectors and one observable."""

MODELS = (
    "error(1) D0 L0\n", "error(1e-320) D0 L0\n", "error(0.7) D0 L0\n", "error(0.1) D10000000000 L0\n", "error(0.1) D0 L4294967295\n", "error(0.1) D0 L4294967296\n", "error(nan) D0\n",
    "error(2) D0\n", "error(1e400) D0 L0\n", "error[", "error[x", "error(0.1) D0 D0 L0\n", "error(0.1) ^\n", "error(1) D0 L0\n",
    "error(0) D0 L0\n", "repeat 4294967296 {\nrepeat 4294967296 {\nerror(0.1) D0 L0\n}\n}\n", "repeat 99999999999 {\n",
    "repeat 1000000000 {\nerror(0.1) D0 L0\nshift_detectors 1\n}\n", "shift_detectors 4000000000000000000\nerror(0.1) D0 L0\n",
    "repeat 9 {\nshift_detectors 4000000000000000000\n}\nerror(0.1) D0 L0\n", "detector(nan) D0\n", "M 0\n", "[" * 1000,
    "error(0.1) D-1\n", "repeat 2 {" * 5000, "logical_observable L0\n", "detector D99999\nerror(0.1) D0 L0\n",
)  # fmt: skip
CIRCUITS = (
    "H[", "[", "H[a", "R 10000000000\n", "M 0\nDETECTOR rec[-5]\nOBSERVABLE_INCLUDE(0) rec[-1]\n",
    "M 0\nDETECTOR rec[-1]\nOBSERVABLE_INCLUDE(10000000000) rec[-1]\n", "REPEAT 1000000000000 {\nM 0\nDETECTOR rec[-1]\n}\nOBSERVABLE_INCLUDE(0) rec[-1]\n",
    "REPEAT 4294967296 {\nREPEAT 4294967296 {\nM 0\nDETECTOR rec[-1]\n}\n}\nOBSERVABLE_INCLUDE(0) rec[-1]\n",
    "REPEAT 1000000000000 {\nH 0\n}\nM 0\nDETECTOR rec[-1]\nOBSERVABLE_INCLUDE(0) rec[-1]\n", "REPEAT 2 {" * 5000,
    "R 0\nX_ERROR(nan) 0\nM 0\nDETECTOR rec[-1]\nOBSERVABLE_INCLUDE(0) rec[-1]\n", "R 0\nH 0\nM 0\nDETECTOR rec[-1]\nOBSERVABLE_INCLUDE(0) rec[-1]\n",
    "CX 0 0\n", "MPP X0*X0\n", "error(0.1) D0\n", "R 16777215\nX_ERROR(0.1) 16777215\nM 16777215\nDETECTOR rec[-1]\nOBSERVABLE_INCLUDE(0) rec[-1]\n",
    "DETECTOR(nan, inf) rec[-1]\n", "SHIFT_COORDS(1e308)\n" * 3,
)  # fmt: skip
SOURCES = (
    "surface_code:rotated_memory_z?distance=1000000000&rounds=5", "surface_code:rotated_memory_z?distance=3&rounds=1000000000000",
    "surface_code:rotated_memory_z?distance=" + "9" * 5000 + "&rounds=5", "surface_code:rotated_memory_z?distance=nan&rounds=5",
    "repetition_code:memory?distance=999&rounds=999999", "repetition_code:memory?distance=3", "repetition_code:memory", ":", "a:b?c", "?",
)  # fmt: skip
FAMILIES = (
    "toric?distance=1000000000", "bb72?x=1", "toric?distance=-1", "toric?distance=" + "9" * 5000, "hgp?h1=(repetition?distance=100000)",
    "repetition?distance=1000000000000", "css?hx=missing.mtx&hz=missing.mtx", "(" * 5000, "hgp?h1=" + "(hgp?h1=" * 500, "rotated_surface?distance=100001",
)  # fmt: skip
MATRICES = {
    ".mtx": (
        "%%MatrixMarket matrix coordinate integer general\n1000000000 1000000000 1\n1 1 1\n",
        "%%MatrixMarket matrix coordinate integer general\n2 2 1000000000000\n1 1 1\n",
        "%%MatrixMarket matrix coordinate integer general\n2 2 1\n10000000000 1 1\n",
        "%%MatrixMarket matrix coordinate integer general\n2 2 1\n-1 1 1\n",
        "%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 nan\n",
        "%%MatrixMarket matrix coordinate integer general\n" + "9" * 5000 + " 2 1\n1 1 1\n",
        "%%MatrixMarket matrix array integer general\n2 2\n1\n",
        "%%MatrixMarket matrix coordinate pattern symmetric\n2 3 1\n1 1\n",
    ),
    ".alist": ("1000000000 1000000000\n1 1\n", "3 2\n2 2\n", "-1 -1\n", "9" * 5000 + " 2\n", "3 2\n2 2\n1 2 1\n2 2\n10000000000 0\n1 2\n2 0\n1 2\n2 3\n", "nan 2\n"),
    ".edges": ("c0 b10000000000\n", "c0\n", "b0 b1\n", "c0 b0 1\n", "\x00\n", "c" + "9" * 5000 + " b0\n", "c0 b0\n" * 3),
    ".graphml": (
        '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]><graphml>&b;</graphml>',
        "<graphml>" + "<graph>" * 50_000, "<a/>", "<graphml><graph><edge source='a' target='a'/></graph></graphml>", "<graphml>",
    ),
    ".json": ('{"bits": 1000000000000, "checks": 1}', '{"bits": -1, "checks": []}', '{"bits": 3, "checks": 2, "edges": [[0, 10000000000]]}', '{"bits": 1e308, "checks": 1}'),
}  # fmt: skip


_OK_OR_REFUSED = frozenset({0, 2})


_SHOWS_VERIFIED = ("pareto", "review", "fork-graph")
"""Commands whose exit code is 1 where a round that says VERIFIED is not backed by a report of the verifier here."""


def call(*words: object, codes: frozenset[int] = _OK_OR_REFUSED) -> Case:
    return Case(tuple(map(str, words)), codes | {1} if words[0] in _SHOWS_VERIFIED else codes)


def readers_of_a_run(run: Path) -> list[Case]:
    """Everything that reads the folder of a run; none changes it."""
    paused = _OK_OR_REFUSED | {3}
    return [
        call("review", run, "--json"),
        call("review", run),
        call("diagnose", run, "--json"),
        call("diagnose", run / "round_1"),
        call("fork-graph", run),
        call("fork-graph", run, "--json"),
        call("fork-graph", run, "--dot"),
        call("machine-state", "--run", run, "--json"),
        call("pareto", run, "--json"),
        call("pareto", run, run, "--compare"),
        call("reconcile", run, "--dry-run", "--json", codes=paused),
        call("watch", run),
        call("card", run / "round_1"),
        call("step", "context", "ideator", "--run", run),
        call("step", "context", "coder", "--run", run, "--round", 2),
        call("step", "end", "--run", run),
    ]


@dataclass(frozen=True)
class Group:
    """Mutants of one file, and the commands that read it."""

    name: str
    mutants: Callable[[Scene], Iterable[Mutant]]
    readers: Callable[[Scene], list[Case]]


_RUN_FILES = (
    "run.json", "plan.json", "pareto.json", "history.jsonl", "fork_graph.json", "llm_ledger.jsonl", "round_1/metrics.json",
    "round_1/round_1_pointer.json", "round_1/verification_report.json", "round_1/config.yaml", "round_1/train.log",
)  # fmt: skip
_MUTANTS = {".json": json_mutants, ".jsonl": lines_mutants, ".yaml": yaml_mutants}


def _of_run(name: str) -> Group:
    make = _MUTANTS.get(Path(name).suffix, byte_mutants)
    return Group(name, lambda scene: make(scene.run / name), lambda scene: readers_of_a_run(scene.run))


def _shots(form: str) -> Group:
    def mutants(scene: Scene) -> Iterator[Mutant]:
        path = scene.root / f"shots.{form}"
        for data in SHOTS[form]:
            yield Mutant(path, data, repr(data[:30]))
        yield from byte_mutants(path)

    def readers(scene: Scene) -> list[Case]:
        words = (
            "decode",
            "--dem",
            scene.root / "model.dem",
            "--in",
            scene.root / f"shots.{form}",
            "--in-format",
            form,
        )
        words += ("--decoder", "pymatching", "--out", "-")
        return [call(*words), call(*words, "--in-includes-observables")]

    return Group(f"shots.{form}", mutants, readers)


def _model(scene: Scene) -> Iterator[Mutant]:
    path = scene.root / "model.dem"
    yield from (Mutant(path, text.encode(), text[:40]) for text in MODELS)
    yield from byte_mutants(path)


def _decode(scene: Scene) -> list[Case]:
    words = (
        "decode",
        "--dem",
        scene.root / "model.dem",
        "--in",
        scene.root / "shots.01",
        "--out",
        "-",
        "--decoder",
    )
    return [call(*words, "pymatching"), call(*words, "bposd-0")]


def _validate(name: str = "env.yaml") -> Callable[[Scene], list[Case]]:
    return lambda scene: [call("env", "validate", scene.root / name, "--json")]


def _code(suffix: str) -> Group:
    """A file that an environment of its own refers to."""

    def mutants(scene: Scene) -> Iterator[Mutant]:
        path = scene.root / f"code{suffix}"
        yield from (Mutant(path, text.encode(), text[:40]) for text in MATRICES.get(suffix, ()))
        yield from byte_mutants(path)

    return Group(f"code{suffix}", mutants, _validate(f"env{suffix}.json"))


def _circuit(scene: Scene) -> Iterator[Mutant]:
    path = scene.root / "code.stim"
    yield from (Mutant(path, text.encode(), text[:40]) for text in CIRCUITS)
    yield from byte_mutants(path)


def _sources(scene: Scene) -> Iterator[Mutant]:
    path = scene.root / "env.stim.json"
    yield from (Mutant(path, environment("stim_circuit", source), source[:60]) for source in SOURCES)
    yield from (Mutant(path, environment("parity_check_matrix", source), source[:60]) for source in FAMILIES)


def _answer(name: str, *words: object) -> Group:
    return Group(
        f"{name}_answer.json",
        lambda scene: json_mutants(scene.root / f"{name}_answer.json"),
        lambda scene: [
            call(
                "step",
                *words,
                "--run",
                scene.root / "odd" / "folder",
                "--in",
                scene.root / f"{name}_answer.json",
            )
        ],
    )


GROUPS: tuple[Group, ...] = (
    *map(_of_run, _RUN_FILES),
    Group("in_flight", lambda s: json_mutants(s.flight / "in_flight" / "round_2.json"), lambda s: readers_of_a_run(s.flight)),
    Group("env.yaml", lambda s: yaml_mutants(s.root / "env.yaml"), _validate()),
    Group("config.yaml", lambda s: yaml_mutants(s.root / "config.yaml"), lambda s: [call("cost", s.root / "config.yaml", "--env", s.root / "missing.yaml")]),
    Group("checkpoint.pt", lambda s: byte_mutants(s.root / "real" / "checkpoint.pt"), lambda s: [call("export", s.root / "real", "--env", s.root / "env.yaml", "--safetensors", s.root / "new.safetensors"), call("export", s.root / "real", "--onnx", s.root / "new.onnx")]),
    Group("artifact_manifest.json", lambda s: json_mutants(s.root / "real" / "artifact_manifest.json"), lambda s: [call("export", s.root / "real", "--safetensors", s.root / "new.safetensors")]),
    Group("package", lambda s: package_mutants(s.root / "package.tar.gz"), lambda s: [call("verify-package", "--no-evaluate", "--json", s.root / "package.tar.gz", codes=frozenset({0, 1, 2, 3}))]),
    *map(_shots, SHOTS),
    Group("model.dem", _model, _decode),
    Group("dem of an environment", _model, _validate("env.dem.json")),
    Group("code.stim", _circuit, _validate("env.stim.json")),
    Group("sources", _sources, _validate("env.stim.json")),
    *map(_code, (".mtx", ".alist", ".npz", ".npy", ".edges", ".graphml", ".json")),
    _answer("idea", "propose"),
    _answer("code", "code", "--round", 7),
    _answer("words", "analyse", "--round", 7),
)  # fmt: skip
