"""`autoqec baseline` as a user runs it."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.autoqec import main


def run(*arguments: str):
    return CliRunner().invoke(main, ["baseline", "surface_d3_depol", "--workers", "1", *arguments])


def test_table_json_csv_and_plot_tell_the_same(tmp_path: Path) -> None:
    csv, plot = tmp_path / "out.csv", tmp_path / "ler.png"
    done = run("--shots", "3000", "--csv", str(csv), "--plot", str(plot), "--json")
    assert done.exit_code == 0, done.output
    report = json.loads(done.output)
    assert report["reference_p"] == 5e-3
    assert report["plain_backend"] == "pymatching"
    assert {(row["p"], row["decoder"]) for row in report["rows"]} == {
        (p, d) for p in (1e-3, 5e-3, 1e-2) for d in ("pymatching", "pymatching_correlated", "belief_matching")
    }
    assert all(row["ler_low"] <= row["ler"] <= row["ler_high"] for row in report["rows"])
    assert len(csv.read_text().splitlines()) == 1 + 9
    assert plot.read_bytes().startswith(b"\x89PNG")
    table = run("--shots", "3000").output
    for row in report["rows"]:
        assert str(row["failures"]) in table


def test_decoders_that_are_missing_are_named() -> None:
    done = run("--shots", "100", "--p", "0.01", "--decoders", "pymatching,bposd-0,relay_bp,tesseract")
    assert done.exit_code == 0
    for name in ("relay_bp", "tesseract"):
        assert f"Not run: {name}: not installed: pip install" in done.output or f"{name} " in done.output


def test_bad_requests_exit_2_and_write_nothing(tmp_path: Path) -> None:
    for arguments in (
        ["--decoders", "magic"],
        ["--p", "0.9"],
        ["--csv", str(tmp_path / "missing" / "x.csv")],
    ):
        done = run("--shots", "100", *arguments)
        assert done.exit_code == 2
        assert "error" in done.output.lower()
    assert list(tmp_path.iterdir()) == []


def test_ratios_to_another_decoder_are_those_of_the_same_shots() -> None:
    words = ("--shots", "5000", "--p", "0.01", "--decoders", "pymatching")
    done = run(*words, "--against", "belief_matching", "--json")
    assert done.exit_code == 0, done.output
    report = json.loads(done.output)
    assert (report["plain_backend"], report["against"]) == ("pymatching", "belief_matching")
    plain, other = report["rows"]
    assert (plain["decoder"], other["decoder"]) == ("pymatching", "belief_matching")
    assert plain["against_ratio"] == pytest.approx(other["failures"] / plain["failures"])
    assert plain["against_ratio"] == pytest.approx(1 / other["ratio_to_plain"])
    assert plain["against_only_other_failed"] == other["only_this_failed"]
    assert plain["against_only_this_failed"] == other["only_plain_failed"]
    assert (other["against_ratio"], other["against_ratio_low"], other["against_ratio_high"]) == (1, 1, 1)
    table = run(*words, "--against", "belief_matching").output
    assert "ratio = belief_matching LER / LER" in " ".join(table.split())
    assert f"{plain['against_ratio']:.3f}" in table


@pytest.mark.parametrize(
    ("against", "said"),
    [
        ("magic", "unknown decoder 'magic'"),
        ("beleif_matching", "did you mean 'belief_matching'?"),
        ("bposd-\u00b2", "unknown decoder"),
        ("bposd-" + "9" * 40, "unknown decoder"),
        (" ", "--against"),
        ("bposd", "is several decoders"),
        ("turbo-0", "cannot run on surface_d3_depol: needs an environment with"),
        ("no/such", "is not a folder"),
        ("surface_d5_depol/cascade_1mflop", "did you mean 'zoo:surface_d5_depol/cascade_1mflop'?"),
        ("zoo:surface_d5_depol/cascade_1mflop", "was trained on surface_d5_depol"),
    ],
)
def test_a_decoder_that_others_cannot_be_compared_with_is_refused(against: str, said: str) -> None:
    done = run("--shots", "100", "--p", "0.01", "--against", against)
    assert done.exit_code == 2
    assert said in done.output.replace("\n", " ")


def test_one_decoder_is_compared_with() -> None:
    done = run("--shots", "100", "--against", "pymatching", "--against", "belief_matching")
    assert done.exit_code == 2
    assert "--against: given more than once" in done.output


def test_nothing_is_decoded_where_a_later_environment_has_not_the_decoder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def decoded(*_arguments: object, **_options: object) -> None:
        raise AssertionError("a shot was decoded")

    monkeypatch.setattr("autoqec.api.comparison.Evaluator.run", decoded)
    csv = tmp_path / "out.csv"
    words = ("--distances", "3,5", "--p", "0.005", "--against", "maximum_likelihood", "--csv", str(csv))
    done = run("--shots", "1000", *words)
    assert done.exit_code == 2
    assert "maximum_likelihood cannot run on surface_d5_depol" in " ".join(done.output.split())
    assert not csv.exists()


def test_a_name_is_the_decoder_and_not_what_lies_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "belief_matching").mkdir()
    (tmp_path / "results").mkdir()
    words = ("--shots", "100", "--p", "0.01", "--json")
    assert json.loads(run(*words, "--against", "belief_matching").output)["against"] == "belief_matching"
    for folder in ("./belief_matching", "results"):
        done = run(*words, "--against", folder)
        assert done.exit_code == 2
        assert "has no checkpoint.pt" in done.output


def test_zero_shots_are_an_empty_table() -> None:
    done = run("--shots", "0", "--p", "0.01", "--json")
    assert done.exit_code == 0
    assert all(row["ler"] is None and row["shots"] == 0 for row in json.loads(done.output)["rows"])


def test_progress_shows_on_a_terminal_only() -> None:
    arguments = [
        sys.executable,
        "-m",
        "autoqec",
        "baseline",
        "surface_d3_depol",
        "--p",
        "0.01",
        "--shots",
        "60000",
    ]
    arguments += ["--decoders", "pymatching", "--workers", "1", "--fresh"]
    master, slave = pty.openpty()
    process = subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=slave, env={**os.environ, "TERM": "xterm"}
    )
    os.close(slave)
    shown = b""
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:
            break
        if not part:
            break
        shown += part
    process.communicate()
    os.close(master)
    assert b"p = 0.01" in shown
    piped = subprocess.run(arguments, capture_output=True, check=True, env=os.environ)
    assert piped.stderr == b""


def test_distances_in_one_call_with_lambda_and_plot(tmp_path: Path) -> None:
    csv, plot = tmp_path / "out.csv", tmp_path / "threshold.png"
    arguments = (
        "--distances",
        "3,5",
        "--shots",
        "4e3",
        "--p",
        "0.01",
        "--decoders",
        "pymatching",
        "--per",
        "round",
    )
    done = run(*arguments, "--csv", str(csv), "--plot", str(plot), "--json")
    assert done.exit_code == 0, done.output
    report = json.loads(done.output)
    small, large = report["environments"]
    assert (small["env"], large["env"]) == ("surface_d3_depol", "surface_d5_depol")
    (found,) = report["lambdas"]
    rates = [each["rows"][0]["ler_per_round"] for each in (small, large)]
    assert found["lambda"] == rates[0] / rates[1]
    assert found["lambda_low"] < found["lambda"] < found["lambda_high"]
    assert rates[0] < small["rows"][0]["ler"]
    assert len(csv.read_text().splitlines()) == 1 + 2
    assert plot.read_bytes().startswith(b"\x89PNG")
    shown = run(*arguments).output
    assert "3 -> 5" in shown
    assert f"{found['lambda']:.3f}" in shown


def test_several_environments_that_are_no_family_have_no_lambda() -> None:
    words = ["baseline", "surface_d3_depol", "surface_d5_biased", "--shots", "100", "--p", "0.01", "--json"]
    done = CliRunner().invoke(main, [*words, "--workers", "1", "--decoders", "pymatching"])
    assert done.exit_code == 0, done.output
    report = json.loads(done.output)
    assert [each["env"] for each in report["environments"]] == ["surface_d3_depol", "surface_d5_biased"]
    assert report["lambdas"] == []


def test_enough_failures_end_a_p() -> None:
    done = run("--shots", "1e6", "--max-errors", "20", "--p", "0.01", "--decoders", "pymatching", "--json")
    (row,) = json.loads(done.output)["rows"]
    assert row["shots"] == 8192
    assert row["failures"] >= 20


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["bb72_depol", "--distances", "3,5"], "no distance="),
        (["surface_d3_depol", "surface_d5_depol", "--distances", "3"], "give one ENV"),
        (["surface_d3_depol", "--distances", "3;5"], "write them as 3,5,7"),
        (["surface_d3_depol", "surface_d3_depol"], "listed twice"),
        (["steane_custom_dem", "--per", "round"], "how many rounds"),
    ],
)
def test_what_has_no_distance_or_rounds_is_refused(words: list[str], said: str) -> None:
    done = CliRunner().invoke(main, ["baseline", "--shots", "10", *words])
    assert done.exit_code == 2
    assert said in done.output
