"""How a shot is decoded, in pictures. The first line of a function is what its picture says."""

from __future__ import annotations

from drawing import SMALL, Picture, lattice


def pipeline(on: Picture) -> None:
    """An environment file becomes a circuit, an error model and matrices. Its shots pass predecoder and backend, and are compared pair by pair."""
    on.box(16, 24, 150, 64, "environment", small=["one YAML file"])
    on.arrow((166, 56), (194, 56))
    on.box(196, 24, 190, 64, "circuit, noise at p", small=["Stim"])
    on.arrow((386, 56), (414, 56))
    on.box(416, 24, 208, 64, "H, L, priors, graph", small=["the decoding problem"])
    on.arrow((291, 88), (291, 120), (91, 120), (91, 146))
    on.text(101, 140, "sampler", size=SMALL, look="soft", anchor="start")
    on.box(16, 148, 150, 64, "shots", small=["bits, packed"])
    on.arrow((166, 180), (194, 180))
    on.box(196, 148, 130, 64, "predecoder", look="model")
    on.arrow((326, 180), (354, 180))
    on.box(356, 148, 110, 64, "backend", look="classical")
    on.arrow((466, 180), (494, 180))
    on.box(496, 148, 128, 64, "predictions")
    on.line((520, 88), (520, 120), look="thin")
    on.line((411, 120), (520, 120), look="thin")
    on.arrow((411, 120), (411, 146), look="thin")
    on.arrow((560, 212), (560, 252))
    on.box(
        280,
        254,
        344,
        56,
        "paired statistics",
        small=["with classical decoders on the same shots"],
        look="checked",
    )
    on.arrow((91, 212), (91, 282), (278, 282))
    on.text(101, 274, "what truly flipped", size=SMALL, look="soft", anchor="start")


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
