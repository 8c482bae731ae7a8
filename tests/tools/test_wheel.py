"""`pip install .`: the wheel holds all that the package needs, and works outside a checkout."""

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_a_wheel_in_a_fresh_environment(tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    source = tmp_path / "source"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(source)], check=True)
    build = ["wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path / "dist"), str(source)]
    subprocess.run([*pip, *build], check=True)
    (wheel,) = (tmp_path / "dist").glob("autoqec-*.whl")
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", "--no-deps", str(wheel)], check=True)
    # Its libraries are those of this environment, which has them all.
    libraries = sysconfig.get_paths()["purelib"]
    code = """
import autoqec, pathlib, sys
home = pathlib.Path(autoqec.__file__).parent
assert pathlib.Path(sys.prefix) in home.parents, home
print(autoqec.compare("surface_d3_depol", p=0.01, shots=100, workers=1))
import importlib.resources as r
for package, name in (("agents.prompts", "*.md"), ("example_db", "*.yaml"), ("knowledge", "*.md"), ("agent_tools", "skills/*/SKILL.md"), ("report.page", "static/*.js"), ("zoo", "*/*/checkpoint.pt")):
    assert list((home / package.replace(".", "/")).glob(name)), package
"""
    variables = {**os.environ, "PYTHONPATH": libraries}
    done = subprocess.run(
        [str(python), "-c", code], cwd=tmp_path, env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "belief_matching" in done.stdout
