"""Rounds whose files lie, and environments that make the baseline look bad."""

from __future__ import annotations

import json
from dataclasses import replace

import stim

from autoqec import layout
from autoqec.decoders.backends.matching import MatchingBackend
from autoqec.envs import cache
from autoqec.envs.environment import Environment
from autoqec.envs.load import load_env
from autoqec.envs.schema import EnvSpec
from autoqec.errors import AutoQECError
from autoqec.eval.report_store import written_report
from autoqec.runs.names import RoundName, parse_branch
from cheats.corpus import cheat
from cheats.scene import NETWORK, Outcome, Scene, act, refused, surface

_FORGED = {"ler_plain_classical": 0.08, "ler_predecoder": 0.001, "n_params": 3, "flops_per_syndrome": 10}


@cheat(
    "forged metrics.json",
    family="files that lie",
    how="metrics.json declares a huge gain, three parameters and ten FLOPs for a network that does nothing",
    defence="declared figures are compared with measured ones and never used",
    expect="FAILED",
    because="declared_figures",
)
def _metrics(scene: Scene) -> Outcome:
    claimed = f"{_FORGED['ler_plain_classical']:.4f} -> {_FORGED['ler_predecoder']:.4f} (claimed)"
    return scene.verify(scene.round(NETWORK, metrics=_FORGED), gain=claimed)


@cheat(
    "forged report",
    family="files that lie",
    how="the report of a round without a gain is edited: VERIFIED, with a large gain, for the loop to find when it resumes",
    defence="the hash of each report is in the verifier's own chained ledger; no other report is read back",
    expect="refused",
    because="not as this verifier wrote it",
)
def _report(scene: Scene) -> Outcome:
    folder = scene.round(NETWORK)
    scene.verify(folder)
    path = folder / "verification_report.json"
    gain = {"delta_vs_baseline_holdout": 0.5, "delta_ler_ci_low": 0.4, "delta_ler_ci_high": 0.6}
    path.write_text(json.dumps({**json.loads(path.read_text()), **gain, "verdict": "VERIFIED"}))
    try:
        return act(written_report(folder, home=scene.home).verdict == "VERIFIED", "")
    except AutoQECError as error:
        return refused(error)


@cheat(
    "training on holdout labels",
    family="files that lie",
    how="the checkpoint's recorded training labels reach into 9000-9999",
    defence="recorded labels must lie in the train range",
    expect="FAILED",
    because="seed_isolation",
)
def _labels(scene: Scene) -> Outcome:
    return scene.verify(scene.round(train_labels=(900, 9050)))


@cheat(
    "checkpoint swapped after it was logged",
    family="files that lie",
    how="the manifest has the hash of another checkpoint than the one that lies there now",
    defence="what is hashed is what is used, and it must be what the manifest records",
    expect="FAILED",
    because="artifacts",
)
def _swapped(scene: Scene) -> Outcome:
    folder = scene.round()
    (folder / "artifact_manifest.json").write_text(json.dumps({"artifacts": {"checkpoint.pt": "0" * 64}}))
    return scene.verify(folder)


@cheat(
    "config of another round",
    family="files that lie",
    how="config.yaml describes a cheaper model than the checkpoint holds",
    defence="the checkpoint's own config is used, and config.yaml must agree with it",
    expect="FAILED",
    because="artifacts",
)
def _config(scene: Scene) -> Outcome:
    folder = scene.round()
    (folder / "config.yaml").write_text(
        "type: neural_bp\noutput_mode: soft_priors\nneural_bp: {iterations: 1}\n"
    )
    return scene.verify(folder)


@cheat(
    "YAML bomb",
    family="files that lie",
    how="an environment file whose nested aliases expand to 10^9 values",
    defence="anchors, aliases and tags are not read",
    expect="refused",
    because="anchors and aliases",
)
def _bomb(scene: Scene) -> Outcome:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"{b}: &{b} [{', '.join([f'*{a}'] * 10)}]" for a, b in zip("abcdefgh", "bcdefghi", strict=True)]
    path = scene.folder / "env.yaml"
    path.write_text("\n".join(lines))
    try:
        load_env(path)
    except AutoQECError as error:
        return refused(error)
    return act(True, "it was read")


@cheat(
    "environment of another round",
    family="inflated baseline",
    how="the round was trained on an easier environment than the one it is verified on",
    defence="the checkpoint holds the content hash of its environment",
    expect="refused",
    because="another version",
)
def _other(scene: Scene) -> Outcome:
    easier = surface(3, noise={"type": "depolarizing", "p": [0.002], "reference_p": 0.002})
    return scene.verify(scene.round(env=Environment(EnvSpec.model_validate(easier))))


def _misled(dem: str) -> stim.DetectorErrorModel:
    """The error model with its probabilities in the opposite order: frequent faults are said to be rare."""
    rows = list(stim.DetectorErrorModel(dem).flattened())
    chances = sorted(row.args_copy()[0] for row in rows if row.type == "error")
    ranked = sorted((row for row in rows if row.type == "error"), key=lambda row: -row.args_copy()[0])
    out = stim.DetectorErrorModel()
    for row, chance in zip(ranked, chances, strict=True):
        out.append("error", chance**2, row.targets_copy())
    for row in rows:
        if row.type != "error":
            out.append(row)
    return out


@cheat(
    "poisoned problem cache",
    family="inflated baseline",
    how="the cached decoding problem is rewritten, checksum and all, with priors that mislead the matching",
    defence="the verifier builds the problem afresh and compares the cache with it",
    expect="FAILED",
    because="decoding_model",
)
def _poisoned(scene: Scene) -> Outcome:
    # A sweep of its own: other cases must not find this entry.
    scene.spec = surface(3, noise={"type": "depolarizing", "p": [0.0101], "reference_p": 0.0101})
    env, p = scene.env, 0.0101
    folder = scene.round(NETWORK)
    good = env.problem(p)
    bad = replace(good, dem=str(_misled(good.dem)))
    path = layout.problem_cache(env._problem_key(p))
    path.write_bytes(cache._encode(bad))
    shots = env.sampler(p).sample(4000, 1)
    wrong = [
        (MatchingBackend(of).decode(shots.detectors) != shots.observables).mean()
        for of in (env.problem(p), good)
    ]
    try:
        return scene.verify(folder, gain=f"{wrong[0]:.4f} -> {wrong[1]:.4f}")
    finally:
        path.unlink()


@cheat(
    "slug traversal",
    family="files that lie",
    how="slugs and branch names such as ../../x, --help or two lines lead git and the file system elsewhere",
    defence="what does not fit a strict pattern never reaches git or the file system",
    expect="refused",
    because="cannot name a round",
)
def _slug(scene: Scene) -> Outcome:
    errors: list[AutoQECError] = []
    for slug in ("../../x", "--help", "a/../../b", "a\nb", "", "x" * 200, "a;b", "é"):
        for attempt in (
            lambda slug=slug: RoundName("20260101-000000", 1, slug),
            lambda slug=slug: parse_branch(f"exp/20260101-000000/01-{slug}"),
        ):
            try:
                attempt()
                return act(True, f"{slug!r} was taken")
            except AutoQECError as error:
                errors.append(error)
    return refused(errors[0])
