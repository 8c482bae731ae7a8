"""The door: few names, all of them documented, none of them imported before it is used."""

import doctest
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import autoqec

HOMES = sorted({home.partition(":")[0] for home in autoqec._HOMES.values()})


def test_every_name_is_there_and_documented() -> None:
    assert set(autoqec.__all__) == set(autoqec._HOMES)
    for name in autoqec.__all__:
        found = getattr(autoqec, name)
        assert inspect.getdoc(found), name
        assert name in dir(autoqec)
    with pytest.raises(AttributeError, match="no_such"):
        autoqec.no_such  # noqa: B018


def test_importing_loads_nothing_heavy() -> None:
    code = "import autoqec, sys; print(sorted({'torch', 'stim', 'numpy', 'scipy', 'numba', 'pandas'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("home", HOMES)
def test_examples_in_docstrings_run(home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = doctest.testmod(importlib.import_module(f"autoqec.{home}"))
    assert found.failed == 0


def test_what_a_user_forgets_is_named() -> None:
    with pytest.raises(autoqec.AutoQECError, match="neither a builtin environment nor a file"):
        autoqec.load_env("surface_d5")
