"""Writes docs/results.md: what was verified, from the reports of the zoo alone. `python tools/results.py [FILE]`; a test compares the two."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from autoqec.finds.zoo import ZooEntry, zoo_entries
from autoqec.report.card import cost_lines, figures

PAGE = Path(__file__).resolve().parent.parent / "docs" / "results.md"
_HEAD = """# Results

Every predecoder of the [zoo](zoo.md) that is verified, beside every classical decoder of its environment, on the same shots. All figures are those of the verifier's
reports ([verification.md](verification.md)): `python tools/results.py` writes this page from them, and a test compares the two; what was measured otherwise says so. `autoqec zoo verify` measures them again.
In brackets: 95% intervals. A slow classical decoder has fewer shots, and is then compared on those alone. Times are of one core of the machine that verified.

Begin with [how gain and cost grow with distance](#how-gain-and-cost-grow-with-distance), [Tesseract and Relay-BP](#beside-tesseract-and-joint-relay-bp-on-the-same-shots) and
[published predecoders](#beside-published-predecoders); then come back to one entry. The estimate is a fixed number of fresh shots that selected nothing: quote it. The test decided the verdict.
In a verdict "anytime p" is the p-value of that test; it has to be below alpha, and 0 means that it is too small for a double. Every other p is the physical error rate.

Two classical decoders that come near the best there can be are not among those of the reports: Tesseract ([below](#beside-tesseract-and-joint-relay-bp-on-the-same-shots)), and [`sweep-N`](decoders.md#a-sweep-over-the-detectors), which is compared with some of these entries in
[predecoders.md](predecoders.md#how-far-from-the-best-decoder): by itself `sweep-128` and `surface_d5_depol/cascade_sweep`, which asks it about 2.4% of the shots, fail 170 times each on the same 20,000 shots, and `sweep-128` takes 15 times as long.
"""
_DISTANCES = """## How gain and cost grow with distance

Rotated surface code, memory in Z, as many rounds as the distance, circuit-level depolarizing noise at p = 5e-3; on the shots of the estimate. A ratio is that of the other
decoder's LER over this one's.

| distance | entry | its LER | plain matching | correlated matching | belief matching | untrained | MFLOP in the mean | parameters |
|---|---|---|---|---|---|---|---|---|
"""
_FOOT = """The gain over plain matching grows with the distance. At distance 3 it is nearly all that there is to gain (the best decoder there can be has 1.16x,
[predecoders.md](predecoders.md#how-far-from-the-best-decoder)); at distance 7 half of the failures of plain matching are gone. The cost of the larger entries grows 3.2 times from
distance 5 to 7.

## Beside Tesseract and joint Relay-BP, on the same shots

By `autoqec baseline`, options `--decoders` and `--with`, on shots that selected nothing; 13 x86_64 cores, times of one of them. Relay-BP is our own (`joint_relay`); it and turbo propagation are given both
halves of the syndrome, as `turbo_legs` is.

| environment, p, shots | decoder | failures | LER of the plain backend over this one's | time a shot |
|---|---|---|---|---|
| `surface_d5_depol`, 5e-3, 100,000 | plain matching | 1426 | 1 | 4 us |
| | correlated matching | 1095 | 1.302 (1.241 .. 1.367) | 11 us |
| | belief matching | 979 | 1.457 (1.385 .. 1.532) | 50 us |
| | `cascade_1mflop` | 866 | 1.647 (1.557 .. 1.741) | 92 us |
| | Tesseract | 853 | 1.672 (1.579 .. 1.770) | 9.6 ms |
| | `cascade_sweep` | 810 | 1.760 (1.662 .. 1.865) | 0.47 ms |
| `bb72_depol`, 3e-3, 6,144 | BP+OSD-0 | 172 | 1 | 1.6 ms |
| | joint Relay-BP, five solutions | 41 | 4.20 (3.15 .. 5.58) | 254 ms |
| | `turbo-0`, and `turbo-10` | 27 | 6.37 (4.48 .. 9.06) | 0.45 ms |
| | `turbo_legs` | 22 | 7.82 (5.26 .. 11.6) | 1.0 ms |

## Beside published predecoders

None of these was run here, and no two of them decode the same circuits; a comparison is worth what its own baseline is worth. Figures as published.

| what | where | LER | size |
|---|---|---|---|
| convolutional predecoder with plain matching behind it ([arXiv:2604.12841](https://arxiv.org/abs/2604.12841)) | rotated surface code, up to large distances | at least 2x lower than plain matching; a larger model beats correlated matching up to distance 13 | 9.1e5 parameters; made for a GPU, about 1 us a round |
| neural predecoder with Chromobius behind it ([arXiv:2607.10058](https://arxiv.org/abs/2607.10058)) | triangular colour code | at least 2x lower than Chromobius | made for a GPU |
| convolutional decoder, no matching behind it ([arXiv:2604.08358](https://arxiv.org/abs/2604.08358)) | surface code, p = 2e-3; gross code, p = 1e-3 | falls 8.4 times from one odd distance to the next, where plain matching has 5.0, correlated matching 7.8 and Tesseract 9.1; on the gross code 17x lower than Relay-BP | trained on 3e8 shots; up to 40 us a round on a GPU |
| ensemble of matchings with perturbed weights ([arXiv:2401.12434](https://arxiv.org/abs/2401.12434)) | surface code | near that of the best decoder | costs about four matchings in the mean |
| `surface_d7_depol/cascade_10mflop`, here | rotated surface code, distance 7, p = 5e-3 | 2.12x lower than plain matching, 1.26x than correlated matching | 1.9e5 parameters, 9.45 MFLOP in the mean; runs on one core |

So at distance 7, with a fifth of the parameters, the ratio to plain matching is of the size that the first one quotes. It says nothing about larger distances, at which the
published ones are made to work and the entries of the zoo are not, nor about time on a GPU, which was not measured here. Nothing here comes near the third one on the gross code.

## What is not here yet

- Other environments. What was found there is in [predecoders.md](predecoders.md), each figure with its shots and whether it was verified; so is what did not help, and how far
  from the best decoder there can be a find is.
- Distance 9.
"""


def page(entries: Sequence[ZooEntry]) -> str:
    parts = [_HEAD]
    for entry in sorted(entries, key=lambda entry: entry.name):
        report = entry.report
        if report is None or not entry.is_verified:
            continue
        about = [f"## {entry.name}", "", *figures(report), "", *cost_lines(report), "", "## Shots", ""]
        about.append(
            f"- Of the test: bundle `{report.paired_eval_bundle_id}`, {report.shots} shots at the reference p."
        )
        if report.estimate is not None:
            about.append(
                f"- Of the estimate: bundle `{report.estimate.bundle}`, {report.estimate.shots} shots."
            )
        heading, *rest = "\n".join(about).splitlines()
        parts.append("\n".join([heading, *(re.sub("^## ", "### ", line) for line in rest), ""]))
    return "\n".join([*parts, _DISTANCES + "\n".join(_by_distance(entries)), "", _FOOT])


def _by_distance(entries: Sequence[ZooEntry]) -> Iterator[str]:
    for entry in sorted(entries, key=lambda entry: (entry.env, entry.flops_per_syndrome)):
        found = re.fullmatch(r"surface_d(\d+)_depol", entry.env)
        if found is None or not entry.is_verified or entry.report is None or entry.report.estimate is None:
            continue
        estimate = entry.report.estimate
        others = {row.baseline: row.ratio for row in (estimate, *estimate.classical)}
        others["untrained"] = None if estimate.untrained is None else estimate.untrained.ratio
        ratios = (
            "" if (ratio := others.get(name)) is None else f"{ratio:.2f}x"
            for name in ("pymatching", "pymatching_correlated", "belief_matching", "untrained")
        )
        yield (
            f"| {found[1]} | `{entry.name}` | {estimate.ler_candidate:.3g} | {' | '.join(ratios)} "
            f"| {entry.flops_per_syndrome / 1e6:.2f} | {entry.metrics.n_params} |"
        )


if __name__ == "__main__":
    Path(sys.argv[1] if len(sys.argv) > 1 else PAGE).write_text(page(zoo_entries()))
    if len(sys.argv) == 1:
        from results_picture import PICTURE, draw

        draw(zoo_entries(), PICTURE)
