"""Steane code, [[7, 1, 3]] (Proc. R. Soc. A 452, 2551 (1996))."""

from __future__ import annotations

from autoqec.envs.codes.css import CSSCode, css_code
from autoqec.envs.codes.family import Family, Request
from autoqec.envs.codes.family_hamming import hamming_checks


def _build(request: Request) -> CSSCode:
    h = hamming_checks(3)
    return css_code(request.reference, h, h, where=request.where)


STEANE = Family(name="steane", summary="Steane code, [[7, 1, 3]]", parameters={}, build=_build)
