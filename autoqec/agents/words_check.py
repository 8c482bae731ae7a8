"""An Analyst's words, with the verdict and the figures corrected where the metrics do not support them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from autoqec.agents.schemas import AnalystResponse
from autoqec.search.analyst import Analysis, analyse
from autoqec.search.proposal import Row

_NUMBER = re.compile(
    r"(?<![\w.])(?<!\w-)[-+]?(\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?)\s?(%|[kMG](?![a-z])|MFLOP|GFLOP)?", re.I
)
_UNITS = {"%": 1e-2, "k": 1e3, "m": 1e6, "g": 1e9, "mflop": 1e6, "gflop": 1e9, "": 1.0}
_MEASURED = re.compile(
    r"\b(ler|delta|ratio|gain\w*|improv\w*|reduc\w*|lower\w*|flops?|params?|parameters|loss)\b", re.I
)


def check_words(
    response: AnalystResponse, metrics: Row, front: Iterable[Row] = (), config: Row | None = None
) -> Analysis:
    """The response with its verdict and figures corrected.

    A figure is supported if some number of the metrics, of the config or a ratio of the two LERs agrees with it to the
    digits that are written. A summary with another figure gives way to `summary`; a seed gives way to `findings` only if the
    figure stands in a sentence about something that was measured, since a seed may name sizes to try next.
    """
    right = analyse(metrics, front)
    known = _known(metrics, config)
    changes: dict[str, str] = {}
    corrections = []
    if response.verdict != right.verdict:
        changes["verdict"] = right.verdict
        corrections.append(f"verdict {response.verdict} -> {right.verdict}: {right.summary_1line}")
    wrong = [text for text in _figures(response.summary_1line) if not _supported(text, known)]
    if wrong:
        changes["summary_1line"] = right.summary_1line
        corrections.append(f"summary replaced: no metric supports {', '.join(wrong)}")
    claims = [part for part in re.split(r"[.;]\s", response.next_hypothesis_seed) if _MEASURED.search(part)]
    wrong = [text for part in claims for text in _figures(part) if not _supported(text, known)]
    if wrong:
        changes["next_hypothesis_seed"] = right.next_hypothesis_seed
        corrections.append(f"seed replaced: no metric supports {', '.join(wrong)}")
    return Analysis(**(response.model_dump() | changes), corrections=tuple(corrections))


def _figures(text: str) -> list[str]:
    return [found[0].strip() for found in _NUMBER.finditer(text)]


def _supported(figure: str, known: frozenset[float]) -> bool:
    match = _NUMBER.fullmatch(figure)
    if match is None:
        return False
    digits, unit = match[1].replace(",", "").lower(), _UNITS[(match[2] or "").lower()]
    mantissa, _, exponent = digits.partition("e")
    decimals = len(mantissa.partition(".")[2])
    step = 10.0 ** (int(exponent or 0) - decimals) * unit
    value = float(digits) * unit
    return any(abs(abs(number) - value) <= 0.51 * step for number in known)


def _known(metrics: Row, config: Row | None) -> frozenset[float]:
    numbers = {*_leaves(metrics), *_leaves(config or {})}
    plain, ours = metrics.get("ler_plain_classical"), metrics.get("ler_predecoder")
    if plain and ours:
        numbers |= {plain / ours, ours / plain, 1 - ours / plain, plain / ours - 1}
    return frozenset(numbers)


def _leaves(value: Any) -> Iterator[float]:
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from _leaves(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _leaves(inner)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield float(value)
