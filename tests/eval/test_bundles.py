"""Secret, ledger and bundles: fresh shots that nobody can foresee, and a record that nobody can shorten."""

from __future__ import annotations

import json
import shutil
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from autoqec.envs.environment import Environment
from autoqec.errors import AutoQECError, InputError
from autoqec.eval.bundles import CHUNK, load_bundle, new_name, open_bundle, sample_chunk
from autoqec.eval.family import lone_family, run_family, shared
from autoqec.eval.ledger import Draw, Ledger
from autoqec.eval.secret import Secret
from autoqec.io.jsonl import JsonLines
from autoqec.layout import RunDir, VerifierDir

P = 0.01


def test_a_secret_is_made_once_and_private(tmp_path: Path) -> None:
    path = tmp_path / "home" / "secret"
    with ThreadPoolExecutor(8) as pool:
        keys = set(pool.map(lambda _: Secret.of(path).key, range(32)))
    assert len(keys) == 1
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["secret"]
    assert Secret.of(tmp_path / "other" / "secret").key not in keys
    assert next(iter(keys)).hex() not in repr(Secret.of(path))
    path.chmod(0o644)
    with pytest.raises(InputError, match="owner"):
        Secret.of(path)


def test_seeds_depend_on_every_part_and_on_the_secret() -> None:
    one, other = Secret(b"1" * 32), Secret(b"2" * 32)
    base = ("confirm", "bundle", "circuit", 9000)
    seeds = {one.seed(*base), other.seed(*base), one.seed("dev", *base[1:])}
    seeds |= {one.seed("confirm", "b", "circuit", 9000), one.seed("confirm", "bundle", "c", 9000)}
    seeds |= {one.seed("confirm", "bundle", "circuit", 9001)}
    assert len(seeds) == 6
    assert one.seed(*base) == Secret(b"1" * 32).seed(*base)
    assert all(0 <= seed < 2**64 for seed in seeds)


def filled(env: Environment, home: VerifierDir, secret: Secret, kind: str = "confirm", labels=(9000, 9004)):
    bundle = open_bundle(env, kind, home.bundles, labels, ["c" * 64], new_name(env, kind))
    for p in env.spec.noise.p:
        missing = bundle.missing(p, 2 * CHUNK)
        bundle.add(p, [sample_chunk(env, p, bundle.seed(secret, p, label)) for label in missing])
    return bundle


def test_bundles_are_archived_by_the_hash_of_their_data(env: Environment, tmp_path: Path) -> None:
    home, secret = VerifierDir(tmp_path), Secret(b"s" * 32)
    bundle = filled(env, home, secret)
    assert bundle.labels_used() == [9000, 9001]
    assert bundle.missing(P, 3 * CHUNK) == [9002]
    with pytest.raises(InputError, match="more labels"):
        bundle.missing(P, 6 * CHUNK)
    identity = bundle.seal(home.bundles)
    again = load_bundle(env, home.bundles, identity)
    assert again.shots(P) == 2 * CHUNK
    assert not again.fresh
    assert [path.name for path in home.bundles.iterdir()] == [identity]
    fresh = filled(env, home, secret).seal(home.bundles)
    assert fresh != identity  # another name, other seeds, other shots
    first, second = (
        load_bundle(env, home.bundles, each).files(P)[0].read_bytes() for each in (identity, fresh)
    )
    assert len(first) == len(second)
    assert np.mean(np.frombuffer(first, np.uint8) != np.frombuffer(second, np.uint8)) > 0.05


def test_dev_bundles_come_out_the_same(env: Environment, tmp_path: Path) -> None:
    home, secret = VerifierDir(tmp_path), Secret(b"s" * 32)
    assert filled(env, home, secret, "dev").seal(home.bundles) == filled(env, home, secret, "dev").seal(
        home.bundles
    )
    assert filled(env, home, Secret(b"t" * 32), "dev").seal(home.bundles) not in {
        filled(env, home, secret, "dev").seal(home.bundles)
    }


def test_a_changed_or_foreign_bundle_is_refused(env: Environment, tmp_path: Path) -> None:
    home = VerifierDir(tmp_path)
    identity = filled(env, home, Secret(b"s" * 32)).seal(home.bundles)
    path = home.bundles / identity / "p1.obs.b8"
    data = bytearray(path.read_bytes())
    data[17] ^= 1
    path.write_bytes(data)
    with pytest.raises(InputError, match="hash"):
        load_bundle(env, home.bundles, identity)
    meta = home.bundles / identity / "meta.json"
    content = json.loads(meta.read_text())
    content["streams"][0]["circuit"] = "0" * 64
    meta.write_text(json.dumps(content))
    with pytest.raises(InputError, match="other circuits"):
        load_bundle(env, home.bundles, identity)
    for name in ("../" + identity, "nothing", ""):
        with pytest.raises(InputError, match="archive"):
            load_bundle(env, home.bundles, name)


def spend(
    ledger: Ledger, family: str, checkpoint: str, planned: int = 3, kind: str = "confirm"
) -> tuple[int, float]:
    return ledger.open(family, checkpoint, kind=kind, confirmations=planned)[:2]


def test_a_run_spends_its_alpha_once(tmp_path: Path) -> None:
    ledger = Ledger(VerifierDir(tmp_path))
    assert [spend(ledger, "run", f"c{i}") for i in range(4)] == [
        (0, pytest.approx(0.025 / 3)),
        (1, pytest.approx(0.025 / 3)),
        (2, pytest.approx(0.025 / 3)),
        (3, 0.0),
    ]
    assert spend(ledger, "other run", "c9")[0] == 0
    assert spend(ledger, "a third run", "c0")[0] == 1  # the same checkpoint elsewhere
    assert spend(ledger, "run", "c5", kind="dev")[0] == 4
    assert spend(ledger, "run", "c6")[0] == 4  # a dev bundle spends nothing


def test_a_longer_plan_does_not_bring_back_what_was_spent(tmp_path: Path) -> None:
    ledger = Ledger(VerifierDir(tmp_path))
    assert spend(ledger, "run", "a", planned=1) == (0, 0.025)
    assert spend(ledger, "run", "b", planned=100) == (1, 0.0)


def test_the_ledger_notices_changes(tmp_path: Path) -> None:
    home = VerifierDir(tmp_path)
    ledger = Ledger(home)
    for index in range(4):
        spend(ledger, "run", f"c{index}")
    lines = home.ledger.read_text().splitlines(keepends=True)
    for damaged in ([lines[0], *lines[2:]], lines[1:], [lines[0].replace("c0", "x0"), *lines[1:]]):
        home.ledger.write_text("".join(damaged))
        with pytest.raises(AutoQECError, match="changed"):
            ledger.rows()
    home.ledger.write_text("".join(lines) + '{"torn')
    assert len(ledger.rows()) == 4
    spend(ledger, "run", "c9")
    assert len(ledger.rows()) == 5


def test_concurrent_confirmations_share_one_plan(tmp_path: Path) -> None:
    ledger = Ledger(VerifierDir(tmp_path))
    with ThreadPoolExecutor(6) as pool:
        shares = list(pool.map(lambda i: spend(ledger, "run", f"c{i}", planned=4), range(12)))
    assert sorted(share[0] for share in shares) == list(range(12))
    assert sum(share[1] for share in shares) == pytest.approx(0.025)


def test_a_run_is_known_by_its_identity_and_not_by_its_folder(tmp_path: Path) -> None:
    run = tmp_path / "20260101-120000"
    run.mkdir()
    RunDir(run).about.write_text(json.dumps({"run_id": run.name, "base_commit": "b" * 40}))
    family = run_family(run / "round_1")
    assert family == run_family(run / "round_2")
    linked, renamed = tmp_path / "link", tmp_path / "renamed"
    linked.symlink_to(run)
    assert run_family(linked / "round_1") == family
    shutil.copytree(run, renamed)
    assert run_family(renamed / "round_9") == family
    RunDir(renamed).about.unlink()  # its branch still says which run it is
    stripped = run_family(renamed / "round_9", "exp/20260101-120000/03-wider")
    assert shared(stripped, family)
    assert shared(f"{tmp_path}/20260101-120000", family)  # of an older ledger
    assert not shared(run_family(tmp_path / "20260101-120001" / "round_1"), family)
    assert run_family(tmp_path / "alone") is None
    RunDir(run).about.write_text(json.dumps({"run_id": run.name, "base_commit": "c d"}))
    assert shared(run_family(run / "round_1"), family)  # whatever its own file says


def test_a_run_with_a_name_is_a_family_and_a_folder_of_rounds_is_none(tmp_path: Path) -> None:
    run = tmp_path / "first-try"
    run.mkdir()
    assert run_family(run / "round_1") is None
    RunDir(run).about.write_text(json.dumps({"run_id": run.name, "base_commit": "b" * 40}))
    family = run_family(run / "round_1")
    assert shared(run_family(tmp_path / "elsewhere", "exp/first-try/03-wider"), family)
    assert run_family(tmp_path / "elsewhere", "feature/first-try/03-wider") is None
    here, there = (run_family(run / "round_1", env_hash=letter * 64) for letter in "ef")
    assert not shared(here, there)  # a name may be used again for another environment
    RunDir(run).about.write_text(json.dumps({"run_id": run.name, "base_commit": "c" * 40}))
    assert shared(run_family(run / "round_2", env_hash="e" * 64), here)


def test_a_round_that_stands_alone_is_its_config_seed_and_environment() -> None:
    one = lone_family("e", {"type": "gnn"}, 1)
    assert one == lone_family("e", {"type": "gnn"}, 1)
    others = [
        lone_family("e", {"type": "gnn"}, 2),
        lone_family("f", {"type": "gnn"}, 1),
        lone_family("e", {}, 1),
    ]
    assert not any(shared(one, other) for other in others)


def test_an_estimate_is_drawn_once_for_a_checkpoint(tmp_path: Path) -> None:
    ledger = Ledger(VerifierDir(tmp_path))
    first = ledger.draw_estimate("run", "c", "env", Draw("name", 100, (9000, 9010)))
    assert first == ("name", 100, (9000, 9010))
    assert ledger.draw_estimate("other", "c", "env", Draw("kinder", 900, (9000, 9999))) == first
    assert ledger.draw_estimate("run", "d", "env", Draw("x", 1, (0, 1))).name == "x"
    assert spend(ledger, "run", "c") == (0, pytest.approx(0.025 / 3))  # it spends no alpha


def test_a_row_without_the_mark_of_the_secret_proves_nothing(tmp_path: Path) -> None:
    """Whoever can write the file can chain a row to it; the mark needs the key."""
    home = VerifierDir(tmp_path)
    ledger = Ledger(home)
    opening = ledger.open("run 20260101-120000", "c", kind="confirm", confirmations=3).opening
    facts = {"checkpoint": "c", "family": "run 20260101-120000", "opening": opening, "report": "r"}
    forged = {"event": "judged", "previous": opening, **facts, "mark": "0" * 64}
    JsonLines(home.ledger).append(forged)
    assert ledger.wrote("r", "c", "run 20260101-120000") is None
    ledger.add("judged", **facts)
    assert ledger.wrote("r", "c", "run 20260101-120000") is not None
    assert ledger.wrote("r", "other", "run 20260101-120000") is None
    assert ledger.wrote("r", "c", "run 20260101-120001") is None
    assert ledger.wrote("r", "c", None) is None
    ledger.add("judged", **{**facts, "report": "unopened", "opening": None})
    assert ledger.wrote("unopened", "c", "run 20260101-120000") is None
    home.secret.unlink()
    assert Ledger(home).wrote("r", "c", "run 20260101-120000") is None
    assert spend(Ledger(home), "run 20260101-120000", "d")[0] == 1  # what was spent stays spent
