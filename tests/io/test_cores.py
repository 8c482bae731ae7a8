"""How many cores are counted on."""

import pytest

from autoqec.executors.local import LocalExecutor
from autoqec.io.cores import available_cores


def test_the_variable_of_python_says_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHON_CPU_COUNT", "7")
    assert available_cores() == LocalExecutor().cores == 7


@pytest.mark.parametrize("text", ["default", "0", "", "many", "-2"])
def test_what_is_no_number_of_cores_is_as_if_it_were_not_there(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.delenv("PYTHON_CPU_COUNT", raising=False)
    counted = available_cores()
    monkeypatch.setenv("PYTHON_CPU_COUNT", text)
    assert available_cores() == counted >= 1
