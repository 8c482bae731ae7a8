"""Tables: as wide as they may be, and no number broken."""

from __future__ import annotations

import pytest

from autoqec.commands.output import print_table

COLUMNS = ("decoder", "shots", "failures", "LER", "95% interval", "us/shot")
ROWS = [
    ("pymatching_correlated", 200_000_000, 1234567, 0.01403, "0.0135123 .. 0.0146456", "12345.678"),
    ("a decoder whose name is made of many words", 7, 0, None, "0 .. 0.41", "2.1"),
]


def printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int | None
) -> list[str]:
    if width is None:
        monkeypatch.delenv("COLUMNS", raising=False)
    else:
        monkeypatch.setenv("COLUMNS", str(width))
    print_table("A title", COLUMNS, ROWS, least=(5, 2))
    return capsys.readouterr().out.splitlines()


def test_a_pipe_gets_the_whole_table(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = printed(capsys, monkeypatch, None)
    assert len(lines) == 5
    assert lines[3].split("  ")[0] == "pymatching_correlated"
    for value in ("200000000", "1234567", "0.01403", "0.0135123 .. 0.0146456", "12345.678"):
        assert value in lines[3]


@pytest.mark.parametrize(("width", "gone"), [(84, ["us/shot"]), (72, ["failures", "us/shot"])])
def test_a_narrow_table_leaves_out_the_least_and_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int, gone: list[str]
) -> None:
    lines = printed(capsys, monkeypatch, width)
    assert max(map(len, lines)) <= width
    assert f"{', '.join(gone)} (--json has all)" in lines[-1]
    for column in COLUMNS[1:]:
        assert (column.split()[0] in " ".join(lines[1:3])) is (column not in gone)
    for value in ("200000000", "0.01403", "0.0135123 .. 0.0146456"):
        assert any(value in line for line in lines)


def test_figures_are_not_broken_even_where_nothing_fits(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = printed(capsys, monkeypatch, 20)
    for value in ("200000000", "0.01403", "0.0135123 .. 0.0146456"):
        assert any(value in line for line in lines)
