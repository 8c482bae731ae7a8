"""docs/reward_hacking.md, from the corpus: `python tools/cheats.py --document`."""

from __future__ import annotations

from cheats.corpus import Cheat, Control

TESTED = (
    "pickle payload",
    "symlinked checkpoint",
    "search of stack and heap",
    "cross-shot leakage",
    "weightless logic",
    "forged metrics.json",
    "YAML bomb",
    "slug traversal",
    "environment of another round",
    "link in the branch",
    "chosen seeds",
    "tier 2: dunder attributes",
    "hypothesis that closes its fence",
    "patched pymatching",
    "NaN for hard shots",
    "cheap when counted",
    "stage that looks sure",
    "exact integer key",
    "fork bomb",
    "sitecustomize for the worker",
    "judged row without a mark",
    "run renamed",
    "poisoned index in numba's cache folder",
    "swapped reports",
    "VERIFIED without a report",
    "ghost row in a run",
    "module that reads the secret",
    "fake gitdir with a filter",
    "untrained belief propagation, d = 4",
)
"""Played by `make test-verifier`, each family of cheats at least once; the rest by `make cheats` alone."""

_HEAD = """# Reward hacking

A search for better decoders finds the gaps of its own evaluation first. This page lists the ways to be called VERIFIED
without deserving it that the verifier is tried against, how each works and what stops it. Every line is a case with its own
fixture in `tests/cheats`: a crafted file, a real git branch, a hostile process. `make cheats` plays all of them, with the honest
controls, and fails on any miss; a case counts as rejected only if the defence named here is what stopped it. Where it can be
shown, `make cheats` also prints what the cheat gains with the defence off: in one process with the labels, by its own
claim, or by the same measurement without the guard that broke.

This page is made from the corpus by `python tools/cheats.py --document`, and a test compares the two.
"""

_TAIL = """
## What is not stopped

- A hidden algorithm that the weights switch on within a tolerance, such as a fixed decoder that runs while some learned number
  is roughly right, looks like learning under every ablation. Its gain on fresh shots is real, and so is its cost; only the
  attribution is wrong. The commit of the round is there to be read.
- Work below what the clock can show: code of a branch that works outside torch, with better kernels than those of its config's own
  model, hides up to three times the ratio of their speeds. Beyond that its CPU time is charged, and then condemned.
- Learned numbers in the source of a branch, such as a table of literals that works together with the weights, are not counted as
  parameters. A table that wins without them is found by the ablation.
- A confined training may fill the disk of its round's folder, and all cores until its deadline. Under Landlock alone, before Linux 6.12, it
  can send signals to other processes of the same user.
- Whoever owns the verifier's account owns the verifier: its interpreter, its home with secret and ledger. Rows cannot
  be changed or taken out of the middle of the ledger unseen, but its end can be cut off. Start the installed `autoqec` command, and not
  `python -m` inside a checkout that is being judged.
- A package may claim what its own shots could have shown: the check refuses a gain that fresh shots contradict, at a level at which an
  honest package is refused once in a thousand times. A claim within the noise of few shots passes; quote the gain measured here. Free
  text (hypotheses, rationales, remarks) is nobody's claim. A page of another version of AutoQEC does not compare equal.
- Rounds outside a run share no plan of confirmations unless config, seed and environment, or their checkpoints, are the same: whoever
  trains a thousand rounds alone and verifies each has a thousand plans. So has whoever starts a thousand runs.
"""


def document(cheats: list[Cheat], controls: list[Control]) -> str:
    parts = [_HEAD]
    families: dict[str, list[Cheat]] = {}
    for each in cheats:
        families.setdefault(each.family, []).append(each)
    parts.append(f"{len(cheats)} cheats in {len(families)} families, {len(controls)} honest controls.\n")
    for family, cases in families.items():
        parts += [
            f"\n## {family[0].upper()}{family[1:]}\n",
            "",
            "| cheat | how it works | what stops it | outcome | shown by |",
        ]
        parts.append("|---|---|---|---|---|")
        parts += [_row(case) for case in cases]
        parts.append("")
    parts += [
        "",
        "## Honest controls",
        "",
        "No guard may object to one; those that win must be VERIFIED, the others may be SUSPICIOUS for want of a gain.",
        "",
    ]
    parts += ["| control | what it is | must be VERIFIED | shown by |", "|---|---|---|---|"]
    parts += [
        f"| {c.name} | {c.how} | {'yes' if c.must_win else 'no gain is promised'} | {_shown(c.name)} |"
        for c in controls
    ]
    return "\n".join(parts) + "\n" + _TAIL


def _row(case: Cheat) -> str:
    cells = (case.name, case.how, case.defence, " or ".join(case.expect), _shown(case.name))
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _shown(name: str) -> str:
    return "`test_cheats.py`, `make cheats`" if name in TESTED else "`make cheats`"
