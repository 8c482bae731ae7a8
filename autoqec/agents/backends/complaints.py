"""What went wrong inside a command line program, from what it prints. The words are those of the tested versions (docs/llm.md)."""

from __future__ import annotations

import re
import time

from autoqec.agents.failures import Kind, RoleFailure

_STATUS: dict[int, Kind] = {
    401: "login", 402: "credit", 403: "login", 408: "overloaded", 409: "overloaded", 429: "rate_limit",
}  # fmt: skip

_WORDS: tuple[tuple[Kind, str], ...] = (
    (
        "credit",
        r"credit balance|quota exceeded(?!.*(retry|try again))|insufficient.quota|exceeded your current quota"
        r"|payment required|unpaid invoice",
    ),
    (
        "model",
        r"issue with the selected model|model_not_found|\bmodel\b.{0,60}(does not exist|not supported)",
    ),
    ("truncated", r"output token maximum|reason: max_output_tokens"),
    ("refusal", r"safeguards flagged|flagged as potentially violating|reason: content_filter|usage policy"),
    ("rate_limit", r"\b429\b|rate.?limit|usage limit|hit your .{0,20}limit|quota"),
    (
        "login",
        r"\b40[13]\b|invalid api key|/login|not logged in|unauthorized|authenticat|missing environment variable",
    ),
    (
        "overloaded",
        r"\b(500|502|503|504|529)\b|overloaded|at capacity|high demand|internal server error",
    ),
    (
        "connection",
        r"stream disconnected|ECONN|connection (was |failed|refused|error|to the api was lost)"
        r"|waiting for network|error sending request|lookup address|network error|timed out",
    ),
    ("request", r"prompt is too long|context window|invalid_request_error|request too large"),
)
"""The first that fits counts: a stream may break because of a limit, and a limit may be that of an empty account."""
_PATTERNS = tuple((kind, re.compile(words, re.IGNORECASE)) for kind, words in _WORDS)
_MAYBE_CHARGED: frozenset[Kind] = frozenset({"crash", "truncated", "refusal", "connection"})
_HINTS: dict[Kind, str] = {
    "credit": "the vendor's account has no money left: add some, or use another key",
    "model": "set AUTOQEC_<ROLE>_MODEL to a model that the key may use",
}

_WAIT = re.compile(r"(?:retry|try again|retrying)\D{0,12}?(\d+(?:\.\d+)?) ?(ms|s|m|h)", re.IGNORECASE)
_RESET = re.compile(r"limit reached\|(\d{9,11})\b")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def complaint(
    text: str, *, program: str, login: str, status: int | None = None, charged: bool = True
) -> RoleFailure:
    """The failure that a program reports. login: what to do about a login. status: of the vendor's answer, if the program
    gives it. charged: whether what it cost is unknown."""
    message = " ".join(text.split())[:400] or "no message"
    kind = kind_of(text, status)
    return RoleFailure(
        kind,
        f"{program}: {message}",
        hint=hint_for(kind, login),
        charged=charged and kind in _MAYBE_CHARGED,
        retry_after_s=_wait(text) if kind in ("rate_limit", "overloaded") else None,
    )


def kind_of(text: str, status: int | None) -> Kind:
    """Of a vendor's or a program's error message."""
    by_words: Kind = next((kind for kind, words in _PATTERNS if words.search(text)), "crash")
    if status is None or by_words in ("credit", "model", "refusal"):  # which come with several statuses
        return by_words
    if status == 404 and "model" in text.lower():
        return "model"
    return _STATUS.get(status, "overloaded" if status >= 500 else "request")


def hint_for(kind: Kind, login: str) -> str | None:
    return login if kind == "login" else _HINTS.get(kind)


def _wait(text: str) -> float | None:
    if (reset := _RESET.search(text)) is not None:
        return max(0.0, int(reset[1]) - time.time())
    wait = _WAIT.search(text)
    return None if wait is None else float(wait[1]) * _SECONDS[wait[2].lower()]
