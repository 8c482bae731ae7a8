"""`autoqec env` and `autoqec add-env`, run as a user would."""

import json
from pathlib import Path

import numpy as np
import pytest
import stim
from click.testing import CliRunner

from autoqec.envs.codes.families import build_code
from autoqec.envs.load import builtin_names, load_env
from cli.autoqec import main


def run(*arguments: str, stdin: str | None = None):
    return CliRunner().invoke(main, list(arguments), input=stdin)


def test_list_names_every_builtin() -> None:
    done = run("env", "list")
    assert done.exit_code == 0
    assert all(name in done.output for name in builtin_names())
    assert [row["name"] for row in json.loads(run("env", "list", "--json").output)] == builtin_names()


def test_show_reports_sizes() -> None:
    shown = json.loads(run("env", "show", "surface_d5_depol", "--json").output)
    first = shown["problems"][0]
    assert (first["detectors"], first["faults"], first["observables"], first["edges"]) == (120, 1677, 1, 502)
    assert first["hyperedge_share"] == pytest.approx(1 - (first["faults"] - 1100) / 1677, abs=0.35)
    assert sum(b["faults"] for b in first["prior_histogram"]) == 1677
    assert [row["p"] for row in shown["problems"]] == [1e-3, 5e-3, 1e-2]
    text = run("env", "show", "surface_d5_depol", "--p", "0.005").output
    assert "1677" in text
    assert "0.001" not in text.split("Decoding problems")[1].splitlines()[3].split()[0]


def test_show_reports_the_code() -> None:
    facts = json.loads(run("env", "show", "bb72_depol", "--json", "--p", "0.003").output)["facts"]
    assert (facts["n"], facts["k"], facts["distance at most"]) == (72, 12, "6 (x), 6 (z)")
    assert facts["schedule"] == "published"


@pytest.mark.parametrize("suffix", ["svg", "html"])
def test_diagram(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"circuit.{suffix}"
    assert run("env", "show", "surface_d3_depol", "--p", "0.005", "--diagram", str(path)).exit_code == 0
    assert ("<svg" if suffix == "svg" else "<html") in path.read_text()


def test_diagram_in_an_unknown_format(tmp_path: Path) -> None:
    done = run("env", "show", "surface_d3_depol", "--p", "0.005", "--diagram", str(tmp_path / "a.txt"))
    assert done.exit_code == 2
    assert list(tmp_path.iterdir()) == []


def test_validate_accepts_and_refuses(tmp_path: Path) -> None:
    assert run("env", "validate", "surface_d3_depol").output.startswith("ok: surface_d3_depol")
    bad = tmp_path / "bad.yaml"
    bad.write_text("name: x\n")
    done = run("env", "validate", str(bad))
    assert done.exit_code == 2
    assert "bad.yaml" in done.output


def test_add_env_by_flags(tmp_path: Path) -> None:
    out = tmp_path / "mine.yaml"
    done = run(
        "add-env",
        "--out",
        str(out),
        "--no-input",
        "--source",
        "repetition_code:memory?distance=5&rounds=5",
        "--p",
        "0.01,0.02",
    )
    assert done.exit_code == 0, done.output
    assert f"Next: autoqec baseline {out}" in done.output
    spec = load_env(out).spec
    assert (spec.name, spec.noise.p, spec.classical_backend) == ("mine", [0.01, 0.02], "mwpm")
    assert run("env", "validate", str(out)).exit_code == 0


def test_add_env_by_prompts_corrects_bad_answers(tmp_path: Path) -> None:
    out = tmp_path / "steane.yaml"
    answers = [
        "",
        "parity_check_matrix",
        "",
        "7",
        "0.01,0.02",
        "no_such_code",
        "steane",
        "",
        "nonsense",
        "bposd",
        "",
        "",
        "",
        "",
    ]
    done = run("add-env", "--out", str(out), stdin="\n".join(answers) + "\n")
    assert done.exit_code == 0, done.output
    assert "not a physical error rate" in done.output
    assert "no_such_code" in done.output
    assert "nonsense" in done.output
    spec = load_env(out).spec
    assert (spec.code.source, spec.classical_backend, spec.baseline_decoders) == ("steane", "osd", ["bposd"])


def test_add_env_writes_nothing_that_cannot_be_built(tmp_path: Path) -> None:
    done = run("add-env", "--out", str(tmp_path / "x.yaml"), "--no-input", "--source", "nowhere.stim")
    assert done.exit_code == 2
    assert list(tmp_path.iterdir()) == []


def test_add_env_overwrites_only_by_force(tmp_path: Path) -> None:
    out = tmp_path / "x.yaml"
    out.write_text("precious")
    assert run("add-env", "--out", str(out), "--no-input").exit_code == 2
    assert out.read_text() == "precious"
    assert run("add-env", "--out", str(out), "--no-input", "--force").exit_code == 0
    assert load_env(out).spec.code.type == "stim_circuit"


def test_add_env_covers_every_noise_type(tmp_path: Path) -> None:
    (tmp_path / "model.dem").write_text("error(0.1) D0 D1 L0\nerror(0.1) D0\nerror(0.1) D1 L0\n")
    for noise in ("depolarizing", "biased", "leakage", "custom_dem"):
        out = tmp_path / f"{noise}.yaml"
        source = ["--source", "model.dem"] if noise == "custom_dem" else []
        done = run("add-env", "--out", str(out), "--no-input", "--noise-type", noise, *source)
        assert done.exit_code == 0, done.output
        assert load_env(out).spec.noise.type == noise


@pytest.mark.parametrize(("decomposed", "backend"), [(True, "mwpm"), (False, "osd")])
def test_add_env_matches_an_error_model_that_is_graph_like(
    tmp_path: Path, decomposed: bool, backend: str
) -> None:
    circuit = stim.Circuit.generated(
        "surface_code:rotated_memory_z", distance=3, rounds=2, after_clifford_depolarization=0.01
    )
    circuit.detector_error_model(decompose_errors=decomposed).to_file(tmp_path / "model.dem")
    out = tmp_path / "e.yaml"
    done = run("add-env", "--out", str(out), "--dem", "model.dem", "--no-input")
    assert done.exit_code == 0, done.output
    spec = load_env(out).spec
    assert (spec.noise.type, spec.classical_backend) == ("custom_dem", backend)


def test_show_names_what_is_dropped_and_warns(tmp_path: Path) -> None:
    spec = load_env("bb72_depol").spec.model_dump(mode="json")
    spec["eval_protocol"]["osd_bases"] = "observable"
    (tmp_path / "one_half.yaml").write_text(json.dumps(spec))
    done = run("env", "show", str(tmp_path / "one_half.yaml"), "--p", "0.001")
    assert "basis X (osd decodes the basis of the observables" in done.output
    np.save(tmp_path / "half.npy", build_code("steane").hz)
    words = ("--code-type", "parity_check_matrix", "--source", "half.npy", "--p", "0.05", "--no-input")
    done = run("add-env", "--out", str(tmp_path / "e.yaml"), *words)
    assert "warning: code.source: this matrix looks like one half of a CSS code" in done.output
    shown = run("env", "show", str(tmp_path / "e.yaml"), "--json")
    assert json.loads(shown.stdout)["warnings"]
