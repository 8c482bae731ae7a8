"""`autoqec power`: the figures of the design, and errors that name the flag's value."""

import json

import pytest
from click.testing import CliRunner, Result

from autoqec.commands import main


def _power(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["power", *arguments])


def test_the_table_shows_shots_and_what_the_floor_detects() -> None:
    done = _power("--ler", "1e-3", "--effect", "0.1")
    assert done.exit_code == 0
    assert "663," in done.output
    assert "200,000 shots detect a gain of 18." in done.output


def test_json_holds_the_same_and_rounds_share_alpha() -> None:
    one = json.loads(_power("--ler", "1e-2", "--effect", "0.25", "--json").output)
    many = json.loads(_power("--ler", "1e-2", "--effect", "0.25", "--confirmations", "20", "--json").output)
    assert one["shots_fixed"] == pytest.approx(10_500, rel=0.01)
    assert (one["alpha"], many["alpha"]) == (0.025, 0.00125)
    assert many["shots_fixed"] > one["shots_fixed"]
    assert many["shots_sequential_mean"] <= many["shots_sequential_quantile"]
    assert one["judged_shots"] == 200_000


def test_too_few_shots_are_said_outright() -> None:
    done = _power("--ler", "1e-5", "--effect", "0.5", "--shots", "1000")
    assert "1,000 shots cannot detect even a perfect decoder" in done.output
    assert "10,000,000 shots" in done.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--ler", "2", "--effect", "0.1"], "ler: 2 is out of range"),
        (["--ler", "1e-3", "--effect", "0"], "effect: 0 is out of range"),
        (["--ler", "1e-3", "--effect", "0.1", "--power", "1"], "power: 1 is out of range"),
        (["--ler", "1e-3", "--effect", "0.1", "--alpha", "0.7"], "out of range"),
        (["--ler", "1e-3", "--effect", "0.1", "--kappa", "3"], "kappa: 3 is out of range"),
        (["--ler", "nan", "--effect", "0.1"], "--ler: nan is not a number up to 1e+12"),
        (["--ler", "1e-3", "--effect", "0.1", "--alpha", "0.01", "--confirmations", "5"], "give one of them"),
    ],
)
def test_errors_say_what_to_give(arguments: list[str], message: str) -> None:
    done = _power(*arguments)
    assert done.exit_code == 2
    assert message in done.output
    assert "Traceback" not in done.output
