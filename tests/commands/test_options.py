"""Types of options: what no command could use is refused, by the name of the option."""

from __future__ import annotations

import os
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from autoqec.commands.options import AnyPath, Count, Number, OutFile, OutFolder, Seconds
from autoqec.errors import InputError


def _given(kind: click.ParamType, value: str) -> object:
    @click.command()
    @click.option("--value", type=kind)
    def command(value: object) -> None:
        click.echo(repr(value))

    done = CliRunner().invoke(command, [f"--value={value}"])
    if done.exception is not None:
        raise done.exception
    return done.output.strip()


@pytest.mark.parametrize(
    ("kind", "value"),
    [(Number(), "-1e-3"), (Number(min=0), "0"), (Count(), "1_0"), (Count(min=1), "1"), (Seconds(), "1e6")],
)
def test_what_is_meant_is_taken(kind: click.ParamType, value: str) -> None:
    assert _given(kind, value) == repr(kind.convert(value, None, None))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Number(), "nan"),
        (Number(min=0, max=1), "nan"),
        (Number(), "1e400"),
        (Number(min=0, min_open=True), "0"),
        (Count(), "1.5"),
        (Count(), "1e-3"),
        (Count(), "1.23e1"),
        (Count(), "1e"),
        (Count(), "1__0"),
        (Count(), "1e999999999"),
        (Count(min=1), "0"),
        (Count(), "1" + "0" * 30),
        (Count(), "1" * 5_000),
        (Seconds(), "3e6"),  # more milliseconds than poll() takes
        (AnyPath(), ""),
        (AnyPath(), "x" * 5_000),
        (AnyPath(), "a\0b"),
        (OutFile(), "/nowhere/x"),
        (OutFile(), "/"),
        (OutFolder(), "/etc/hostname/x"),
    ],
)
def test_what_nobody_can_mean_is_refused_by_the_name_of_the_option(kind: click.ParamType, value: str) -> None:
    with pytest.raises(InputError) as caught:
        _given(kind, value)
    assert caught.value.where == "--value"
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("text", "count"),
    [("1e5", 10**5), ("100_000", 10**5), ("1.5e3", 1500), ("1E+2", 100), ("2_0e1", 200), ("-1e1", -10)],
)
def test_counts_with_exponents_and_underscores_are_exact(text: str, count: int) -> None:
    assert Count(min=-100).convert(text, None, None) == count


def test_no_count_is_rounded_on_its_way() -> None:
    seeds = Count(min=0, max=2**64 - 1)
    assert seeds.convert("1.8446744073709551615e19", None, None) == 2**64 - 1
    with pytest.raises(InputError):
        seeds.convert("1.8446744073709551616e19", None, None)


def test_a_file_is_written_over_a_file_and_over_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    for name in ("file", "new"):
        assert OutFile().convert(str(tmp_path / name), None, None) == tmp_path / name
    for name in ("pipe", "loop", "."):
        with pytest.raises(InputError):
            OutFile().convert(str(tmp_path / name), None, None)
    assert OutFolder().convert(str(tmp_path / "a" / "b"), None, None) == tmp_path / "a" / "b"
