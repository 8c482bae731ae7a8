"""How predecoders are searched for and judged, in pictures. The first line of a function is what its picture says."""

from __future__ import annotations

from drawing import SMALL, Picture, Point


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
