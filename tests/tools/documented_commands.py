"""The command lines that the pages show, made ready to run: names for things of the reader stand for things that are there,
and numbers are small, also those that a line leaves to the default. What a page shows is what runs; nothing else about a line is changed."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
READ = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
RUN_ID = "20261115-113000"
CASCADES = "runs/cascades"
"""The folder of a run that has a trained one."""

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_SHELL = ("", "text", "bash")
_INLINE = re.compile(r"`(autoqec [^`]+)`")
_OPTIONAL = re.compile(r"\[[^\]]*\]")
_OTHERS = re.compile(r"(export|git|make|npm|pip|python|ray|sinter|stim|tensorboard) ")
"""Other programs, in blocks, where output stands beside commands."""

READERS = {
    "runs/<run_id>/round_<N>": f"runs/{RUN_ID}/round_1",
    "runs/20260101-000000/round_1": "runs/r1",
    "runs/<run_id>": f"runs/{RUN_ID}",
    "<run_dir>": f"runs/{RUN_ID}",
    "RUN_DIR": f"runs/{RUN_ID}",
    "child": "runs/r1",
    "parent_a": "runs/lab",
    "parent_b": "runs/lab2",
    "RUN_A": f"runs/{RUN_ID}",
    "RUN_B": f"runs/{RUN_ID}",
    "RUN_ID.tar.gz": f"{RUN_ID}.tar.gz",
    "RUN_ID": RUN_ID,
    "FILE": f"{RUN_ID}.tar.gz",
    "ENV": "surface_d5_depol",
    "CONFIG": "neural_bp_gap",
    "ROUND_DIR": f"runs/{RUN_ID}/round_1",
    "NAME": "EnvSpec",
    "N": "1",
    "ID": RUN_ID,
}
"""What stands for something of the reader's, and what it is here."""

_HERE = {
    ("CONFIG", "ROUND_DIR"): "runs/r1",
    ("verify", "ROUND_DIR"): "runs/r1",
    ("stages", "ID"): CASCADES,
    ("loss", "ID"): CASCADES,
    ("export", "ID/round_3"): "runs/r1",
    ("--out", "my_env.yaml"): "asked_env.yaml",
}
"""After another word it is something else."""

_ID_ROUND = re.compile(r"^ID/round_\d+$")
_BUILTIN = re.compile(r"^(surface_d\d_depol|bb72_depol)$")
_SMALLER = {"--shots": 2_000, "--rounds": 1, "--max-errors": 200, "--max_shots": 200, "--processes": 1}
_MAKES_PROBLEMS = {"run", "run-round", "baseline", "verify", "step"}
"""Commands that take an environment of fewer shots in place of a builtin one."""
SEARCHED = "searched_"
"""What the names of those begin with that a new search takes: with still fewer shots."""

_ALONE = {"runs", "doctor", "serve", "install-skills", "--help"}
"""Commands that need no argument."""
_NAMES = {("export", "--onnx"), ("decode", "--predecoder"), ("env", "show"), ("baseline", "--per", "round")}


@dataclass(frozen=True)
class Shown:
    """A line of a page: its words after `autoqec`, without what is optional."""

    page: str
    line: str
    words: tuple[str, ...]
    is_in_a_sentence: bool

    @property
    def verb(self) -> str:
        return self.words[0] if self.words else ""

    @property
    def is_a_name(self) -> bool:
        """A sentence that names a command or an option of it, or a line with dots in place of its arguments."""
        is_short = self.words in _NAMES or (len(self.words) == 1 and self.verb not in _ALONE)
        return "..." in self.line or (self.is_in_a_sentence and is_short)


def shown(page: Path) -> list[str]:
    """The command lines of autoqec that a page shows."""
    return [*_in_blocks(page), *_in_sentences(page)]


def _in_blocks(page: Path) -> list[str]:
    return [line for block in _blocks(page) for line in block if line.startswith("autoqec ")]


def _in_sentences(page: Path) -> list[str]:
    return [each.replace("\\|", "|") for each in _INLINE.findall(page.read_text(encoding="utf-8"))]


def _blocks(page: Path) -> list[list[str]]:
    """The lines of each block that may show commands."""
    fences = _FENCE.findall(page.read_text(encoding="utf-8"))
    texts = [text.replace("\\\n", " ") for kind, text in fences if kind in _SHELL]
    return [[line.strip().removeprefix("$ ") for line in text.splitlines()] for text in texts]


def others(page: Path) -> list[list[str]]:
    """What each block shows of other programs."""
    found = [[line for line in block if _OTHERS.match(line)] for block in _blocks(page)]
    return [lines for lines in found if lines]


def commands(page: Path) -> list[Shown]:
    """Each once, in the order of the page, blocks first."""
    out: dict[tuple[str, ...], Shown] = {}
    for lines, is_in_a_sentence in ((_in_blocks(page), False), (_in_sentences(page), True)):
        for line in lines:
            # Behind a command stand words for the reader.
            alone = re.split(r"\s#|\s{3,}", line)[0].replace("...", "")
            words = tuple(shlex.split(_OPTIONAL.sub(" ", alone))[1:])
            out.setdefault(words, Shown(page.name, line, words, is_in_a_sentence))
    return list(out.values())


def ready(command: Shown, environments: Path) -> list[str]:
    """The words to run in the workspace. environments: where the smaller ones are."""
    out: list[str] = []
    before = ""
    for word in command.words:
        here = f"{RUN_ID}/round_1" if _ID_ROUND.match(word) else READERS.get(word, word)
        here = _HERE.get((before, word), here)
        if _BUILTIN.match(here) and command.verb in _MAKES_PROBLEMS:
            is_new = command.verb == "run" and "--resume" not in command.words
            here = str(environments / f"{SEARCHED if is_new else ''}{here}.yaml")
        out.append(_smaller(before, here))
        before = word
    if command.verb == "baseline" and "--shots" not in out and not command.is_a_name:
        out += ["--shots", str(_SMALLER["--shots"])]
    return out


def ready_line(line: str) -> str:
    """A line of another program, as a shell runs it in the workspace."""
    smaller = re.sub(r"(--\w+) (\d+)\b", lambda found: f"{found[1]} {_smaller(*found.groups())}", line)
    return re.sub(r"\bround_\d+\b", "round_1", smaller)


def _smaller(option: str, value: str) -> str:
    return str(min(int(float(value)), _SMALLER[option])) if option in _SMALLER else value
