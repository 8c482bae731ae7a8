"""Decoders for sinter: all baselines, and predecoders that were found.

    AUTOQEC_PREDECODERS=runs/20261115-113000/round_3 \\
        sinter collect --custom_decoders_module_function 'autoqec:sinter_decoders' --decoders autoqec_round_3 ...

Sinter has a decoder called `pymatching` of its own, so names here start with `autoqec_`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from pathlib import Path

import sinter

from autoqec.decoders import sinter_adapter
from autoqec.decoders.sinter_adapter import SinterDecoder
from autoqec.errors import InputError
from autoqec.finds.predecoder import load_predecoder
from autoqec.finds.zoo import round_folder, split_list

VARIABLE = "AUTOQEC_PREDECODERS"
"""Folders of rounds, or zoo:ENV/NAME, separated as in PATH; `NAME=FOLDER` gives one a name."""
DISCARD = "AUTOQEC_DISCARD_BELOW"
"""Log-odds below which the decoders `..._above_...` discard a shot; without it there are none."""


def sinter_decoders(
    predecoders: Iterable[str | Path] | None = None, *, discard_below: float | None = None
) -> dict[str, sinter.Decoder]:
    """Decoders by their sinter names. One that is not installed says so when it is used.

    Args:
        predecoders: folders of rounds or `zoo:ENV/NAME`, each `FOLDER` or `NAME=FOLDER`. Default: those of the environment variable
            AUTOQEC_PREDECODERS.
        discard_below: log-odds below which a shot is discarded by a second form of every decoder, `NAME_above_2` for 2: sinter adds up
            what has the same name. Default: the environment variable AUTOQEC_DISCARD_BELOW, or no such forms. A decoder
            that does not know how sure it is says so when it is used.
    """
    if discard_below is None and (text := os.environ.get(DISCARD)):
        discard_below = _log_odds(text)
    if predecoders is None:
        predecoders = split_list(os.environ.get(VARIABLE, ""), os.pathsep)
    found = sinter_adapter.decoders()
    for given in predecoders:
        name, _, folder = str(given).rpartition("=")
        if not round_folder(folder, Path.cwd()).exists():
            raise InputError(f"{folder!r} is not a folder", where=VARIABLE, hint="give the folder of a round")
        factory = load_predecoder(folder, name=name or None)
        key = f"autoqec_{factory.name}"
        if key in found:
            raise InputError(
                f"two decoders are called {key}", where=VARIABLE, hint="name one of them: NAME=FOLDER"
            )
        found[key] = SinterDecoder(factory)
    if discard_below is not None:
        found |= {
            f"{key}_above_{discard_below:g}": SinterDecoder(one.factory, discard_below=discard_below)
            for key, one in found.items()
        }
    return found


def _log_odds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if math.isnan(value):
        raise InputError(f"{text[:40]!r} is not a number", where=DISCARD, hint="give log-odds, such as 2.0")
    return value
