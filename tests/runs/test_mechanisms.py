"""Configs as files: they read back equal, and git merges what different rounds change."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from tiny_runs import CONFIG, changed, user_git

from autoqec.decoders.dsl_schema import PredecoderDSL, canonical_dict
from autoqec.errors import InputError
from autoqec.io.validate import load_model
from autoqec.runs.mechanisms import (
    from_files,
    lost_changes,
    read_files,
    replace_files,
    to_files,
    write_inside,
)

EXAMPLES = sorted((Path(__file__).parents[2] / "autoqec" / "example_db").glob("*.yaml"))
CODE = "def message(x_src, x_dst, e_ij, params):\r\n    return params.W(x_src)  # é"
CUSTOM = {
    "type": "hybrid",
    "gnn": {
        "layers": 2,
        "message_fn": {"type": "custom", "code": CODE, "params_declared": {"W": "Linear(hidden, hidden)"}},
        "edge_features": ["distance", "prior_weight"],
    },
}


def dsl(**options: object) -> PredecoderDSL:
    return PredecoderDSL.model_validate(changed(**options))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_reads_back_equal_whatever_was_there_before(path: Path) -> None:
    config = load_model(path, PredecoderDSL)
    assert canonical_dict(from_files(to_files(config))) == canonical_dict(config)
    for other in EXAMPLES:
        before = to_files(load_model(other, PredecoderDSL))
        assert canonical_dict(from_files(to_files(config, before))) == canonical_dict(config)


def test_every_option_is_written_out_and_no_two_are_neighbours() -> None:
    files = to_files(dsl())
    assert sorted(files) == [
        "gnn.yaml", "hard_flip.yaml", "head.yaml", "neural_bp.yaml", "training.yaml", "type.yaml",
    ]  # fmt: skip
    for content in files.values():
        lines = content.decode().splitlines()
        assert all(line.startswith("# ") == (i % 2 == 0) for i, line in enumerate(lines))
        assert len(set(lines)) == len(lines)
    assert b"attention_heads: 1\n" in files["neural_bp.yaml"]
    assert b"layers: 4\n" in files["gnn.yaml"]


def test_code_is_kept_byte_by_byte() -> None:
    files = to_files(dsl(**CUSTOM))
    assert files["custom/gnn.message_fn.py"] == CODE.encode()
    assert files["custom/gnn.message_fn.yaml"] == b"# W\nW: Linear(hidden, hidden)\n"
    assert b"message_fn: custom\n" in files["gnn.yaml"]
    assert from_files(files).gnn.message_fn.code == CODE


def test_blocks_that_do_not_count_stay_as_they_are() -> None:
    hybrid = to_files(dsl(**CUSTOM))
    without = to_files(dsl(), hybrid)
    changed_files = {name for name in hybrid.keys() | without.keys() if hybrid.get(name) != without.get(name)}
    assert changed_files == {"type.yaml"}
    plain = to_files(dsl(type="hybrid", gnn={"layers": 2}), hybrid)
    assert not any(name.startswith("custom/") for name in plain)


class Merging:
    """A base and two branches with one config each, merged by the real git."""

    def __init__(self, folder: Path, base: PredecoderDSL, *sides: PredecoderDSL) -> None:
        self.folder = folder
        folder.mkdir()
        user_git(folder, "init", "--quiet", "-b", "base")
        self._commit("base", to_files(base))
        for i, side in enumerate(sides):
            user_git(folder, "checkout", "--quiet", "-b", f"side{i}", "base")
            self._commit(f"side{i}", to_files(side, read_files(folder)))

    def _commit(self, name: str, files: dict[str, bytes]) -> None:
        replace_files(self.folder, files)
        user_git(self.folder, "add", "-A")
        user_git(self.folder, "commit", "--quiet", "--allow-empty", "-m", name)

    def merged(self) -> PredecoderDSL | None:
        user_git(self.folder, "checkout", "--quiet", "side0")
        try:
            user_git(self.folder, "merge", "--quiet", "--no-edit", "side1")
        except AssertionError:
            return None
        return from_files(read_files(self.folder))


DIFFERENT = {
    "neighbouring options": ({"neural_bp": {"iterations": 6}}, {"neural_bp": {"weight_sharing": "none"}}),
    "first and last": ({"training": {"learning_rate": 0.01}}, {"training": {"profile": "prod"}}),
    "message function and recipe": (CUSTOM, {"training": {"epochs": 5, "loss": "focal"}}),
    "a new type and an old block": (
        {"type": "hybrid", "gnn": {"layers": 1}},
        {"neural_bp": {"iterations": 9}},
    ),
    "the same new type": (
        {"type": "hybrid", "gnn": {"layers": 1}},
        {"type": "hybrid", "gnn": {"hidden_dim": 8}},
    ),
    "output and head": (
        {"output_mode": "hard_flip", "hard_flip": {"confidence": 0.8}},
        {"head": "mlp_small"},
    ),
}


@pytest.mark.parametrize("case", DIFFERENT)
def test_different_options_merge_and_both_changes_are_there(tmp_path: Path, case: str) -> None:
    one, other = DIFFERENT[case]
    merged = Merging(tmp_path / "r", dsl(), dsl(**one), dsl(**other)).merged()
    assert merged is not None
    both = changed(**one)
    for block, values in other.items():
        both[block] = {**both.get(block, {}), **values} if isinstance(values, dict) else values
    assert canonical_dict(merged) == canonical_dict(PredecoderDSL.model_validate(both))


def test_any_two_options_of_a_block_merge(tmp_path: Path) -> None:
    options = {
        "layers": 7, "hidden_dim": 8, "message_fn": "attention", "aggregation": "max", "normalization": "none",
        "residual": False, "edge_features": ["distance"],
    }  # fmt: skip
    base = dsl(type="gnn", neural_bp=None, gnn={})
    sides = {name: dsl(type="gnn", neural_bp=None, gnn={name: value}) for name, value in options.items()}
    for i, (one, other) in enumerate(itertools.combinations(options, 2)):
        merged = Merging(tmp_path / str(i), base, sides[one], sides[other]).merged()
        assert merged is not None, (one, other)
        expected = dsl(type="gnn", neural_bp=None, gnn={name: options[name] for name in (one, other)})
        assert canonical_dict(merged) == canonical_dict(expected)


def test_features_added_and_removed_on_two_sides_merge(tmp_path: Path) -> None:
    def with_features(*names: str) -> PredecoderDSL:
        return dsl(type="gnn", neural_bp=None, gnn={"edge_features": list(names)})

    base = with_features("syndrome_bit", "round_idx")
    sides = with_features("syndrome_bit", "round_idx", "distance"), with_features("syndrome_bit")
    merged = Merging(tmp_path / "r", base, *sides).merged()
    assert merged.gnn.edge_features == ["syndrome_bit", "distance"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"neural_bp": {"iterations": 6}}, {"neural_bp": {"iterations": 9}}),
        ({"type": "hybrid", "gnn": {}}, {"type": "gnn", "neural_bp": None, "gnn": {}}),
        (
            CUSTOM,
            {
                **CUSTOM,
                "gnn": {**CUSTOM["gnn"], "message_fn": {"type": "custom", "code": "def message(): 1"}},
            },
        ),
    ],
    ids=["value", "type", "code"],
)
def test_the_same_line_changed_on_both_sides_conflicts(tmp_path: Path, one: dict, other: dict) -> None:
    assert Merging(tmp_path / "r", dsl(), dsl(**one), dsl(**other)).merged() is None


def test_a_change_that_no_longer_counts_is_found() -> None:
    base = to_files(dsl())
    gnn = to_files(dsl(type="gnn", neural_bp=None, gnn={"layers": 2}), base)
    longer = to_files(dsl(neural_bp={"iterations": 12}), base)
    merged = {**gnn, "neural_bp.yaml": longer["neural_bp.yaml"]}
    assert lost_changes(base, longer, merged) == ["type.yaml", "neural_bp.yaml"]
    assert lost_changes(base, gnn, merged) == []
    recipe = to_files(dsl(training={"epochs": 4}), base)
    assert lost_changes(base, recipe, {**gnn, "training.yaml": recipe["training.yaml"]}) == []


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("type.yaml", None, "missing"),
        ("type.yaml", b"type: neural_bp\n", "output_mode"),
        ("neural_bp.yaml", b"iterations: many\n", "iterations"),
        ("neural_bp.yaml", b"iterations: 4\niterations: 5\n", "iterations"),
        ("neural_bp.yaml", b"- 1\n", "option"),
        ("neural_bp.yaml", b"itrations: 4\n", "iterations"),
        ("neural_bp.yaml", b"iterations: \xff\n", "UTF-8"),
        ("head.yaml", b"head: custom\n", "code"),
    ],
)
def test_what_is_wrong_in_a_file_is_said(name: str, content: bytes | None, said: str) -> None:
    files = to_files(PredecoderDSL.model_validate(CONFIG))
    files.pop(name)
    if content is not None:
        files[name] = content
    with pytest.raises(InputError, match=said):
        from_files(files)


def test_strange_files_and_links_are_refused(tmp_path: Path) -> None:
    replace_files(tmp_path, to_files(dsl()))
    assert sorted(read_files(tmp_path)) == sorted(to_files(dsl()))
    (tmp_path / "experiment" / "extra.yaml").write_text("a: 1\n")
    with pytest.raises(InputError, match=r"extra\.yaml"):
        read_files(tmp_path)
    (tmp_path / "experiment" / "extra.yaml").unlink()
    (tmp_path / "experiment" / "head.yaml").unlink()
    (tmp_path / "experiment" / "head.yaml").symlink_to("/etc/passwd")
    with pytest.raises(InputError, match=r"head\.yaml"):
        read_files(tmp_path)
    replace_files(tmp_path, to_files(dsl()))
    assert not (tmp_path / "experiment" / "head.yaml").is_symlink()
    (tmp_path / "experiment" / "rounds").symlink_to(tmp_path.parent)
    with pytest.raises(InputError, match="leads out"):
        write_inside(tmp_path, {"experiment/rounds/x": b""})
