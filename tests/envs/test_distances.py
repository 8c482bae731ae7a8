"""An environment at other distances is the environment that one would write by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from autoqec.envs.distances import at_distance, distance_of, family_of, readout_rounds
from autoqec.envs.environment import Environment
from autoqec.envs.load import builtin_folder, load_env
from autoqec.errors import InputError


def changed(folder: Path, source: str, **code: object) -> Environment:
    spec = yaml.safe_load((builtin_folder() / "surface_d5_depol.yaml").read_text())
    spec["code"] = {"type": "stim_circuit", **code, "source": source}
    (folder / "env.yaml").write_text(yaml.safe_dump(spec))
    return load_env(folder / "env.yaml")


@pytest.mark.parametrize("distance", [3, 5, 7])
def test_the_builtin_surface_codes_are_one_family(distance: int) -> None:
    moved, builtin = (
        at_distance(load_env("surface_d5_depol"), distance, where="here"),
        load_env(f"surface_d{distance}_depol"),
    )
    assert moved.spec.name == builtin.spec.name
    assert distance_of(moved) == readout_rounds(moved) == distance
    assert moved.stream(0.01) == builtin.stream(0.01)
    assert family_of(moved) == family_of(builtin)
    assert family_of(moved) != family_of(load_env("surface_d5_biased"))


def test_rounds_keep_their_ratio_to_the_distance(tmp_path: Path) -> None:
    env = changed(tmp_path, "surface_code:rotated_memory_z?distance=4&rounds=2")
    assert at_distance(env, 6, where="here").spec.code.source.endswith("distance=6&rounds=3")
    assert at_distance(env, 6, where="here").spec.name == "surface_d5_depol_d6"
    with pytest.raises(InputError, match="not a whole number of rounds"):
        at_distance(env, 5, where="here")
    other = changed(tmp_path, "surface_code:rotated_memory_z?distance=4&rounds=4")
    assert family_of(other) != family_of(env)


def test_a_source_without_a_distance_is_refused() -> None:
    with pytest.raises(InputError, match="has no distance="):
        at_distance(load_env("bb72_depol"), 5, where="--distances")
    assert readout_rounds(load_env("bb72_depol")) == 6
    assert readout_rounds(load_env("steane_custom_dem")) is None
