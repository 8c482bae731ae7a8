"""`autoqec schema`, as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner

from autoqec.commands import main
from autoqec.commands.schema import MODELS


def run(*args: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["schema", *args])
    return result.exit_code, result.output


@pytest.mark.parametrize("name", MODELS)
def test_every_model_has_a_schema(name: str) -> None:
    code, output = run(name)
    schema = json.loads(output)
    assert code == 0
    assert schema["title"] == name
    assert schema["type"] == "object"


def test_schema_says_what_is_required_and_closed() -> None:
    schema = json.loads(run("EnvSpec")[1])
    assert schema["required"] == [
        "name",
        "code",
        "noise",
        "constraints",
        "baseline_decoders",
        "classical_backend",
    ]
    assert schema["additionalProperties"] is False


@pytest.mark.parametrize("args", [(), ("--list",)])
def test_names_are_listed(args: tuple[str, ...]) -> None:
    code, output = run(*args)
    assert code == 0
    assert output.split() == list(MODELS)
    assert json.loads(run(*args, "--json")[1]) == list(MODELS)


def test_unknown_name_exits_2_and_lists_the_known() -> None:
    code, output = run("envspec")
    assert code == 2
    assert "did you mean 'EnvSpec'?" in output
    assert all(name in output for name in MODELS)
    assert "Traceback" not in output


def test_no_heavy_import() -> None:
    code = (
        "import sys\n"
        "from autoqec.commands.schema import MODELS, json_schema\n"
        "[json_schema(name) for name in MODELS]\n"
        "print([name for name in ('torch', 'stim', 'numba', 'scipy') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
