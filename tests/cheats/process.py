"""The surroundings of the verifier's own process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import yaml

from autoqec.eval.schema import VerifyReport
from cheats.corpus import cheat
from cheats.scene import NETWORK, SHOTS, SOFT_BP, Outcome, Scene, act, judged, surface

_SHADOW = '''
"""In the place of pymatching: the real one, with every ninth answer wrong."""

import sys

path, sys.path = sys.path, [entry for entry in sys.path if entry != HERE]
del sys.modules["pymatching"]
import pymatching as real

sys.path = path  # processes that start from here are to find this file, too

honest = real.Matching.decode_batch


def spoilt(self, *arguments, **options):
    out = honest(self, *arguments, **options)
    out[::9] ^= 1
    return out


real.Matching.decode_batch = spoilt
sys.modules["pymatching"] = real
'''


def run_verify(scene: Scene, round_dir: Path, **environment: str) -> tuple[Path, str]:
    """`autoqec verify` as a command, in an environment with more variables: its report, and what it said."""
    spec = scene.folder / "env.yaml"
    spec.write_text(yaml.safe_dump(scene.spec))
    arguments = ["verify", str(round_dir), "--env", str(spec), "--shots", str(SHOTS), "--cap", str(SHOTS)]
    done = subprocess.run(
        [sys.executable, "-P", "-m", "cli.autoqec", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=scene.folder,
        env={**os.environ, "AUTOQEC_HOME": str(scene.home), **environment},
    )
    return round_dir / "verification_report.json", done.stderr


def _begin(scene: Scene, **environment: str) -> None:
    """A verification that starts its worker and is refused then: the round is of another environment."""
    folder = scene.round(SOFT_BP)
    scene.spec = surface(3, name="another")
    _, said = run_verify(scene, folder, **environment)
    if "another version" not in said:
        raise RuntimeError(said)


def _outcome(report: Path, said: str) -> Outcome:
    if not report.exists():
        raise RuntimeError(said)
    return judged(VerifyReport.model_validate_json(report.read_text()))


@cheat(
    "shadow of pymatching on PYTHONPATH",
    family="hostile surroundings",
    how="PYTHONPATH has a pymatching of its own, so that the verifier's baseline is often wrong",
    defence="a second matcher with the same weights, of another make, must not be better than the baseline",
    expect="FAILED",
    because="frozen_baseline",
)
def _shadow(scene: Scene) -> Outcome:
    folder = scene.folder / "path"
    folder.mkdir()
    (folder / "pymatching.py").write_text(_SHADOW.replace("HERE", repr(str(folder))))
    return _outcome(*run_verify(scene, scene.round(NETWORK), PYTHONPATH=str(folder)))


@cheat(
    "evaluator in the working directory",
    family="hostile surroundings",
    how="the verifier is started inside a checkout whose autoqec and pymatching are the cheater's",
    defence="no process of the installed command imports from the working directory",
    expect="no effect",
    because="not imported",
)
def _inside(scene: Scene) -> Outcome:
    (scene.folder / "autoqec").mkdir()
    for name in ("autoqec/__init__.py", "pymatching.py", "stim.py"):
        (scene.folder / name).write_text(f"open({str(scene.marker)!r}, 'w')\nraise SystemExit\n")
    outcome = _outcome(*run_verify(scene, scene.round(NETWORK)))
    return act(scene.marker.exists(), f"it was not imported: {', '.join(outcome.by)}")


_C = """
#include <stdio.h>
#include <string.h>
__attribute__((constructor)) static void tell(void) {
    char line[4096] = {0};
    FILE *own = fopen("/proc/self/cmdline", "r");
    size_t n = own ? fread(line, 1, sizeof line - 1, own) : 0;
    for (size_t i = 0; i < n; i++) if (!line[i]) line[i] = ' ';
    if (strstr(line, "_serve.py") && !strstr(line, "bwrap") && !strstr(line, "_launch")) {
        FILE *file = fopen("%s", "w");
        if (file) fclose(file);
    }
}
"""


@cheat(
    "LD_PRELOAD into the worker",
    family="hostile surroundings",
    how="a library is preloaded into every process that the verifier starts",
    defence="workers start with an environment made from nothing, and see no file of the cheater",
    expect="no effect",
    because="not loaded",
)
def _preload(scene: Scene) -> Outcome:
    source, library = scene.folder / "evil.c", scene.folder / "evil.so"
    source.write_text(_C % scene.marker)
    compiled = subprocess.run(
        ["cc", "-shared", "-fPIC", "-o", library, source], check=False, capture_output=True
    )
    if compiled.returncode:
        raise RuntimeError(compiled.stderr.decode())
    _begin(scene, LD_PRELOAD=str(library), PYTHONSTARTUP=str(source))
    return act(scene.marker.exists(), "it was not loaded into a worker")


@cheat(
    "sitecustomize for the worker",
    family="hostile surroundings",
    how="sitecustomize.py and usercustomize.py on PYTHONPATH and in the user's base folder wait for the worker",
    defence="python -I with an empty environment and a home of its own",
    expect="no effect",
    because="not run",
)
def _customize(scene: Scene) -> Outcome:
    folder = scene.folder / "path"
    folder.mkdir()
    code = f"import sys\nif '_serve.py' in ' '.join(sys.orig_argv): open({str(scene.marker)!r}, 'w')\n"
    for name in ("sitecustomize.py", "usercustomize.py"):
        (folder / name).write_text(code)
    _begin(scene, PYTHONPATH=str(folder), PYTHONUSERBASE=str(folder))
    return act(scene.marker.exists(), "it was not run in a worker")
