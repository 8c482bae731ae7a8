"""`make pictures`: the pictures of docs/concepts.md, one function each, into docs/figures/concepts. The first line of a function is what it says."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from pathlib import Path

from drawing import SMALL, Picture, Point, lattice

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "figures" / "concepts"


def predecoder(on: Picture) -> None:
    """A predecoder reads the syndrome of a shot. It gives the backend weights for this shot, or applies corrections it is sure of."""
    for top, name in (
        (16.0, "soft_priors: weights for this shot"),
        (206.0, "hard_flip: corrections that it is sure of"),
    ):
        on.text(24, top + 14, name, anchor="start")
        lattice(on, 34, top + 42, "syndrome")
        on.arrow((130, top + 84), (162, top + 84))
        on.box(164, top + 58, 112, 52, "predecoder", look="model")
        on.arrow((278, top + 84), (312, top + 84))
        on.arrow((428, top + 84), (462, top + 84))
        on.box(464, top + 58, 92, 52, "backend", look="classical")
    weights = [
        ((0, 1), (1, 1), 7.0, "model"),
        ((2, 2), (3, 2), 5.5, "model"),
        ((2, 2), (2, 3), 5.5, "model"),
        ((1, 1), (2, 1), 2.5, "model"),
        ((2, 1), (2, 2), 2.5, "model"),
    ]
    lattice(on, 330, 58, "likely faults are thick", edges=weights)
    lattice(on, 330, 248, "what is left", lit=[(2, 3), (3, 2)], edges=[((0, 1), (1, 1), 3.0, "model")])
    on.arrow((556, 100), (590, 100))
    on.text(614, 96, "flip", size=SMALL)
    on.text(614, 114, "or not", size=SMALL)
    on.arrow((556, 290), (590, 290))
    on.text(614, 295, "XOR", size=SMALL)
    on.line((220, 316), (220, 386), (614, 386))
    on.arrow((614, 386), (614, 304))
    on.text(417, 406, "what the applied corrections flip", size=SMALL, look="soft")


def round_of_the_search(on: Picture) -> None:
    """A round goes from a proposal to a branch, a training and a validation. A gain is verified. Every round is a row of the history."""
    for n, (name, small) in enumerate(
        (
            ("propose", "a hypothesis"),
            ("branch", "its own worktree"),
            ("train", "a network"),
            ("validate", "on its shots"),
        )
    ):
        on.box(14 + 157 * n, 24, 138, 64, name, small=[small], look="model" if n == 2 else "")
        if n:
            on.arrow((157 * n - 5, 56), (157 * n + 13, 56))
    on.arrow((554, 88), (554, 130))
    on.box(485, 132, 138, 64, "analyse", small=["is there a gain?"])
    on.arrow((485, 164), (413, 164))
    on.text(449, 155, "yes", size=SMALL)
    on.box(253, 132, 158, 64, "verify", small=["on fresh shots"], look="checked")
    on.arrow((253, 164), (191, 164))
    on.text(222, 155, "holds", size=SMALL)
    on.box(111, 132, 78, 64, "front", look="checked")
    on.box(111, 246, 512, 50, "history, fork graph, log: whatever happened")
    on.arrow((554, 196), (554, 244))
    on.text(566, 226, "no", size=SMALL, anchor="start")
    on.arrow((332, 196), (332, 244))
    on.text(344, 226, "does not hold", size=SMALL, anchor="start")
    on.arrow((150, 196), (150, 244))
    on.arrow((111, 271), (60, 271), (60, 90))
    on.text(320, 320, "the next proposal reads what earlier rounds gave", size=SMALL, look="soft")


def paired_shots(on: Picture) -> None:
    """Both decoders see the same 200,000 shots. 254 fail with turbo alone and 70 with the predecoder alone: only these say which is better."""
    on.text(430, 28, "turbo_legs_bb72")
    on.text(340, 54, "right", size=SMALL, look="soft")
    on.text(520, 54, "wrong", size=SMALL, look="soft")
    on.text(146, 139, "turbo", anchor="end")
    on.text(236, 105, "right", size=SMALL, look="soft", anchor="end")
    on.text(236, 175, "wrong", size=SMALL, look="soft", anchor="end")
    on.box(252, 66, 176, 64, "199,028", small=["both right"])
    on.box(432, 66, 176, 64, "70", small=["lost"], look="unsure")
    on.box(252, 136, 176, 64, "254", small=["won"], look="checked")
    on.box(432, 136, 176, 64, "648", small=["both wrong"])
    on.text(320, 240, "gain = (254 - 70) / 200,000 = 0.00092 per shot")
    on.text(320, 268, "ratio = (254 + 648) / (70 + 648) = 1.26")
    on.text(320, 296, "bb72_depol, p = 3e-3", size=SMALL, look="soft")


def sets_of_shots(on: Picture) -> None:
    """Validation shots choose candidates, test shots decide the verdict, and estimate shots, which choose nothing, give the figure to quote."""
    rows = (
        ("validation", "seeds of the environment", "which rounds are", "candidates", "model"),
        ("test", "the verifier's secret", "VERIFIED or not;", "stops when clear", "checked"),
        ("estimate", "the verifier's secret", "the figure to quote,", "of fixed size", "checked"),
    )
    for n, (name, seeds, says, more, look) in enumerate(rows):
        y = 20.0 + 96 * n
        on.box(20, y, 230, 68, f"{name} shots", small=[seeds], look=look)
        for dot in range(6):
            on.dot(268 + 13 * dot, y + 34, 4, look)
        on.arrow((346, y + 34), (388, y + 34))
        on.box(390, y, 230, 68, says, more)
        if n:
            on.arrow((505, y - 28), (505, y - 2))
    on.text(320, 312, "no shot is in two of these sets", size=SMALL, look="soft")


def front(on: Picture) -> None:
    """The front: rounds that no other beats in gain at no more cost. The area that it covers is the hypervolume."""
    left, right, bottom, top = 70.0, 610.0, 300.0, 24.0
    steps = [(150.0, 236.0), (290.0, 160.0), (440.0, 84.0)]
    corners: list[Point] = []
    for n, (x, y) in enumerate(steps):
        corners += [(x, bottom if n == 0 else steps[n - 1][1]), (x, y)]
    on.area(*corners, (right, steps[-1][1]), (right, bottom), look="checked", opacity=0.14)
    on.line(*corners, (right, steps[-1][1]), look="edge checked", width=2)
    on.arrow((left, bottom), (left, top))
    on.arrow((left, bottom), (right + 12, bottom))
    on.text(left + 10, top + 12, "gain in LER", anchor="start")
    on.text(right, bottom + 26, "mean FLOPs per shot", anchor="end")
    for x, y in steps:
        on.dot(x, y, 8, "checked")
    on.dot(360, 222, 7, "soft")
    on.text(376, 227, "dominated: another round", size=SMALL, look="soft", anchor="start")
    on.text(376, 246, "gains more for less", size=SMALL, look="soft", anchor="start")
    on.text(140, 222, "verified round", size=SMALL, look="checked", anchor="middle")
    on.text(525, 130, "hypervolume:", size=SMALL, look="checked")
    on.text(525, 150, "all of this", size=SMALL, look="checked")


def sealed_verification(on: Picture) -> None:
    """The verifier takes the checkpoint alone from the round, runs the model behind walls, and uses its own shots, backend and statistics."""
    on.box(16, 40, 168, 240, look="model")
    on.text(100, 30, "the round's folder", look="model")
    on.box(32, 66, 136, 46, "checkpoint")
    on.box(32, 210, 136, 54, "claims", small=["metrics, log"])
    on.box(226, 40, 398, 240, look="checked")
    on.text(425, 30, "the verifier", look="checked")
    on.box(246, 58, 150, 72, "the model,", "behind walls", look="unsure dashed")
    on.arrow((168, 89), (244, 89))
    on.box(452, 58, 156, 72, "its own backend", small=["predictions"])
    on.arrow((396, 80), (450, 80))
    on.text(423, 71, "weights", size=12)
    on.box(246, 166, 150, 54, "fresh shots", small=["secret seeds"])
    on.arrow((321, 166), (321, 132))
    on.text(331, 153, "detectors", size=12, look="soft", anchor="start")
    on.box(452, 166, 156, 54, "paired statistics", small=["verdict, estimate"])
    on.arrow((530, 130), (530, 164))
    on.arrow((396, 193), (450, 193))
    on.text(423, 184, "truth", size=12)
    on.line((168, 250), (530, 250), look="thin dashed")
    on.arrow((530, 250), (530, 222), look="thin")
    on.text(349, 266, "compared, never used", size=SMALL, look="soft")
    on.text(320, 308, "the model never sees observables or seeds", size=SMALL, look="soft")


def cascade(on: Picture) -> None:
    """In a cascade every shot takes the cheap first stage. Only shots that the backend is not sure of go on to the second one."""
    on.area((14, 40), (70, 40), (70, 104), (14, 104), look="model", opacity=0.3)
    on.text(42, 66, "all", size=SMALL)
    on.text(42, 84, "shots", size=SMALL)
    on.arrow((70, 72), (100, 72))
    on.box(102, 40, 112, 64, "stage 1", small=["cheap"], look="model")
    on.arrow((214, 72), (240, 72))
    on.box(242, 40, 100, 64, "backend", look="classical")
    on.arrow((342, 72), (368, 72))
    on.box(370, 34, 118, 76, "gate: sure?", small=["log-odds >= t"])
    on.area((488, 44), (534, 44), (534, 100), (488, 100), look="model", opacity=0.3)
    on.text(511, 77, "yes", size=SMALL)
    on.arrow((534, 72), (560, 72))
    on.text(598, 68, "its", size=SMALL)
    on.text(598, 86, "prediction", size=12)
    on.area((425, 110), (433, 110), (433, 160), (425, 160), look="unsure", opacity=0.9)
    on.text(415, 140, "no: a small share s of the shots", size=SMALL, look="unsure", anchor="end")
    on.arrow((429, 160), (429, 200), (348, 200))
    on.box(196, 168, 150, 64, "stage 2", small=["the costly one"], look="model")
    on.line((158, 104), (158, 200), look="thin dashed")
    on.arrow((158, 200), (194, 200), look="thin")
    on.text(148, 150, "log-odds", size=SMALL, look="soft", anchor="end")
    on.text(148, 168, "of stage 1", size=SMALL, look="soft", anchor="end")
    on.arrow((271, 232), (271, 256), (452, 256))
    on.box(454, 226, 96, 60, "backend", look="classical")
    on.arrow((550, 256), (598, 256), (598, 96))
    on.text(320, 324, "expected FLOPs = F1 + s F2        worst case = F1 + F2")


def both_halves(on: Picture) -> None:
    """Turbo: propagation on the backend's half and on the other half by turns. A Y fault shows in both, so each half tells the other."""
    on.box(20, 40, 150, 64, "one half", small=["of the detectors"])
    on.box(20, 206, 150, 64, "the other half", small=["the context"])
    on.arrow((170, 72), (206, 72))
    on.arrow((170, 238), (206, 238))
    on.box(208, 34, 206, 76, "propagation", small=["faults that OSD decodes"], look="model")
    on.box(208, 200, 206, 76, "propagation", small=["faults of the other kind"], look="model")
    on.arrow((272, 110), (272, 198))
    on.arrow((350, 198), (350, 110))
    on.text(311, 150, "Y faults", size=SMALL, look="model")
    on.text(311, 168, "in both", size=SMALL, look="model")
    on.text(262, 160, "beliefs", size=SMALL, look="soft", anchor="end")
    on.text(360, 160, "beliefs", size=SMALL, look="soft", anchor="start")
    on.arrow((414, 72), (452, 72))
    on.box(454, 34, 166, 76, "explained?", small=["stop at once if so"], look="checked")
    on.arrow((537, 110), (537, 198))
    on.text(549, 150, "what stays", size=SMALL, look="unsure", anchor="start")
    on.text(549, 168, "open", size=SMALL, look="unsure", anchor="start")
    on.box(454, 200, 166, 76, "OSD", small=["one half alone"], look="classical")


def confidence(on: Picture) -> None:
    """Confidence: the cheapest correction with other observables less the cheapest of all. The least sure shots can be discarded."""
    lattice(
        on,
        40,
        30,
        "cheapest of all",
        edges=[
            ((0, 1), (1, 1), 5.0, "checked"),
            ((2, 3), (3, 3), 5.0, "checked"),
            ((3, 3), (3, 2), 5.0, "checked"),
        ],
    )
    on.text(82, 164, "weight w0", look="checked")
    ways = [
        ((0, 1), (0, 0), 5.0, "unsure"),
        ((1, 1), (2, 1), 5.0, "unsure"),
        ((2, 1), (2, 3), 5.0, "unsure"),
        ((3, 2), (3, 0), 5.0, "unsure"),
    ]
    lattice(on, 200, 30, "with other observables", edges=ways)
    on.text(242, 164, "weight w1", look="unsure")
    on.text(480, 62, "m = w1 - w0")
    on.text(480, 92, "log-odds that it is right", size=SMALL, look="soft")
    on.text(480, 124, "fails with probability", size=SMALL, look="soft")
    on.text(480, 150, "1 / (1 + exp m)")
    left, right, bottom = 40.0, 600.0, 306.0
    heights = (14, 22, 34, 50, 64, 74, 80, 78, 70, 60, 46, 34, 22, 12)
    step = (right - left) / len(heights)
    for n, height in enumerate(heights):
        x = left + step * n
        on.area(
            (x + 3, bottom),
            (x + 3, bottom - height),
            (x + step - 3, bottom - height),
            (x + step - 3, bottom),
            look="unsure" if n < 2 else "checked",
            opacity=0.55,
        )
    on.line((left, bottom), (right, bottom))
    on.line((left + 2 * step, bottom + 8), (left + 2 * step, 210), look="line dashed")
    on.text(left, 226, "discard", size=SMALL, look="unsure", anchor="start")
    on.text(right, 328, "shots by m: sure", size=SMALL, look="soft", anchor="end")
    on.text(left, 328, "least sure", size=SMALL, look="soft", anchor="start")


HEIGHTS: dict[Callable[[Picture], None], float] = {
    predecoder: 422, round_of_the_search: 334, paired_shots: 314, sets_of_shots: 330, front: 344, sealed_verification: 324,
    cascade: 344, both_halves: 300, confidence: 342,
}  # fmt: skip


def drawn() -> dict[str, str]:
    """File name -> SVG."""
    out = {}
    for draw, height in HEIGHTS.items():
        picture = Picture(640, height, inspect.getdoc(draw) or "")
        draw(picture)
        out[f"{draw.__name__}.svg"] = picture.svg()
    return out


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, svg in drawn().items():
        (FOLDER / name).write_text(svg, encoding="utf-8")
    sys.stdout.write(f"{len(HEIGHTS)} pictures in {FOLDER}\n")


if __name__ == "__main__":
    main()
