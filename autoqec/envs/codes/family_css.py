"""A CSS code from two matrix files, one per type of check."""

from __future__ import annotations

from autoqec.envs.codes.code_string import Parameter
from autoqec.envs.codes.css import CSSCode, css_code
from autoqec.envs.codes.family import Family, Request


def _build(request: Request) -> CSSCode:
    hx, hz = (request.matrix(request.text(key)) for key in ("hx", "hz"))
    return css_code(request.reference, hx, hz, where=request.where)


CSS = Family(
    name="css",
    summary="the CSS code of two matrix files, e.g. css?hx=x.mtx&hz=z.mtx",
    parameters={"hx": Parameter(), "hz": Parameter()},
    build=_build,
)
