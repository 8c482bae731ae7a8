"""Seeds that never coincide by accident, and a cache that is never trusted blindly."""

import numpy as np
import pytest

from autoqec import layout
from autoqec.envs import cache
from autoqec.envs.load import load_env
from autoqec.envs.schema import SeedPolicy
from autoqec.envs.seeds import derive_seed, labels


def test_purposes_streams_and_labels_all_count() -> None:
    seeds = {
        derive_seed(purpose, stream, label)
        for purpose in ("train", "val", "holdout")
        for stream in ("a", "b")
        for label in range(2000)
    }
    assert len(seeds) == 3 * 2 * 2000
    assert all(0 <= seed < 2**64 for seed in seeds)


def test_derivation_is_frozen() -> None:
    """Archived results refer to labels: the derivation may not change silently."""
    assert derive_seed("train", "stream", 1) == 17205141931718597355


def test_joined_parts_cannot_collide() -> None:
    assert derive_seed("train", "1", 11) != derive_seed("train", "11", 1)


def test_labels_are_inclusive() -> None:
    assert list(labels(SeedPolicy(train=(3, 5)), "train")) == [3, 4, 5]


def test_equal_labels_of_two_purposes_give_unrelated_shots() -> None:
    env = load_env("surface_d3_depol")
    stream = env.stream(0.01)
    a = env.sampler(0.01).sample(512, derive_seed("train", stream, 7)).detectors
    b = env.sampler(0.01).sample(512, derive_seed("val", stream, 7)).detectors
    again = env.sampler(0.01).sample(512, derive_seed("train", stream, 7)).detectors
    assert (a == again).all()
    assert (a != b).any()
    # Both streams are about as far apart as two halves of one stream.
    assert np.mean(np.unpackbits(a ^ b)) == pytest.approx(np.mean(np.unpackbits(a[:256] ^ a[256:])), rel=0.1)


def test_streams_differ_between_error_rates_and_environments() -> None:
    d3, d5 = load_env("surface_d3_depol"), load_env("surface_d5_depol")
    assert len({d3.stream(0.001), d3.stream(0.005), d5.stream(0.001)}) == 3
    assert d3.content_hash != d5.content_hash
    assert d3.content_hash == load_env("surface_d3_depol").content_hash


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("AUTOQEC_CACHE", str(tmp_path))
    return tmp_path


def _same(a, b) -> bool:
    return (
        (a.h != b.h).nnz == 0
        and (a.l != b.l).nnz == 0
        and (a.priors == b.priors).all()
        and a.dem == b.dem
        and (a.graph is None) == (b.graph is None)
        and (a.graph is None or (a.graph.ends == b.graph.ends).all())
    )


@pytest.mark.parametrize("name", ["surface_d3_depol", "steane_custom_dem"])
def test_second_load_comes_from_the_cache(own_cache, name: str) -> None:
    env = load_env(name)
    p = env.spec.noise.p[0]
    first, cached = env.load_problem(p)
    assert not cached
    second, cached = load_env(name).load_problem(p)
    assert cached
    assert _same(first, second)


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "noise"])
def test_damaged_entry_is_rebuilt(own_cache, damage: str) -> None:
    env = load_env("surface_d3_depol")
    at = env.spec.noise.p[0]  # every other p needs this one's rates
    good, _ = env.load_problem(at)
    (path,) = (own_cache / "problems").iterdir()
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    damaged = {"flip": bytes(data), "cut": bytes(data[:-100]), "empty": b"", "noise": b"\x00" * 500}[damage]
    path.write_bytes(damaged)
    rebuilt, cached = load_env("surface_d3_depol").load_problem(at)
    assert not cached
    assert _same(good, rebuilt)
    assert load_env("surface_d3_depol").load_problem(at)[1]


def test_unwritable_cache_is_no_error(tmp_path, monkeypatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("AUTOQEC_CACHE", str(blocked))
    assert load_env("surface_d3_depol").problem(0.005).n_faults == 219


def test_key_follows_the_content(own_cache) -> None:
    first, second, *_ = load_env("surface_d3_depol").spec.noise.p
    load_env("surface_d3_depol").problem(first)
    load_env("surface_d3_depol").problem(second)
    assert len(list((own_cache / "problems").iterdir())) == 2
    assert cache.FORMAT >= 1
    assert layout.cache_root() == own_cache
