"""Every kind of failure, provoked by a vendor on loopback, through the real Claude Code and Codex: what each says, how often it
asks, and what AutoQEC makes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from contexts import WORDS
from deadlines import ever_longer
from real import RealDesk, note, real
from vendor import serving

from autoqec.agents.failures import LASTING, REPAIRABLE, RETRYABLE, RoleFailure
from autoqec.agents.prices import NANO

OK = {"do": "answer", "answer": WORDS}


def claude_error(status: int, kind: str, text: str) -> dict[str, Any]:
    return {
        "do": "status",
        "status": status,
        "body": {"type": "error", "error": {"type": kind, "message": text}},
    }


def codex_error(status: int, code: str, text: str) -> dict[str, Any]:
    error = {"message": text, "type": "invalid_request_error", "code": code, "param": None}
    return {"do": "status", "status": status, "body": {"error": error}}


CASES: list[tuple[str, str, dict[str, Any], int, str]] = [
    ("claude", "401", claude_error(401, "authentication_error", "invalid x-api-key"), 2, "login"),
    ("claude", "403", claude_error(403, "permission_error", "Your API key does not have permission"), 1, "login"),
    ("claude", "429", claude_error(429, "rate_limit_error", "This request would exceed your rate limit"), 2, "rate_limit"),
    ("claude", "500", claude_error(500, "api_error", "Internal server error"), 2, "overloaded"),
    ("claude", "529", claude_error(529, "overloaded_error", "Overloaded"), 2, "overloaded"),
    ("claude", "400, low credit", claude_error(400, "invalid_request_error", "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits."), 2, "credit"),
    ("claude", "402", claude_error(402, "billing_error", "Your account has an unpaid invoice"), 1, "credit"),
    ("claude", "404", claude_error(404, "not_found_error", "model: claude-sonnet-5-5"), 2, "model"),
    ("claude", "413", claude_error(413, "request_too_large", "Request exceeds the maximum size"), 1, "request"),
    ("claude", "overload inside a stream", {"do": "failed", "code": "overloaded_error", "text": "Overloaded"}, 1, "overloaded"),
    ("claude", "broken stream", {"do": "break"}, 2, "connection"),
    ("claude", "refusal", {"do": "refusal", "text": "I can't help with that."}, 1, "refusal"),
    ("claude", "token limit", {"do": "truncated", "text": "The half of"}, 4, "truncated"),
    ("claude", "prose", {"do": "text", "text": "no object here"}, 2, "not_json"),
    ("claude", "nothing", {"do": "text", "text": ""}, 3, "empty"),
    ("claude", "tools without end", {"do": "call", "name": "Grep", "given": {"pattern": "x"}}, 6, "turns"),
    ("codex", "401", codex_error(401, "invalid_api_key", "Incorrect API key provided: sk-x."), 2, "login"),
    ("codex", "403", codex_error(403, "unsupported_country_region_territory", "Country, region, or territory not supported"), 2, "login"),
    ("codex", "429", codex_error(429, "rate_limit_exceeded", "Rate limit reached for gpt-6.1-terra on tokens per min."), 1, "rate_limit"),
    ("codex", "500", codex_error(500, "server_error", "The server had an error while processing your request"), 4, "overloaded"),
    ("codex", "503", codex_error(503, "server_is_overloaded", "Our servers are currently overloaded."), 2, "overloaded"),
    ("codex", "429, no quota", codex_error(429, "insufficient_quota", "You exceeded your current quota, please check your plan."), 1, "credit"),
    ("codex", "404", codex_error(404, "model_not_found", "The model `gpt-6.1-terra` does not exist or you do not have access to it."), 1, "model"),
    ("codex", "400", codex_error(400, "invalid_value", "Invalid value: 'odd'"), 1, "request"),
    ("codex", "limit inside a stream", {"do": "failed", "code": "rate_limit_exceeded", "text": "Rate limit reached. Please try again in 0.1s."}, 2, "rate_limit"),
    ("codex", "overload inside a stream", {"do": "failed", "code": "server_is_overloaded", "text": "Our servers are currently overloaded."}, 1, "overloaded"),
    ("codex", "broken stream", {"do": "break"}, 2, "connection"),
    ("codex", "refusal", {"do": "refusal", "text": "I can't help with that."}, 1, "refusal"),
    ("codex", "flagged prompt", {"do": "failed", "code": "invalid_prompt", "text": "Invalid prompt: your prompt was flagged as potentially violating our usage policy."}, 1, "refusal"),
    ("codex", "token limit", {"do": "truncated", "text": "The half of"}, 1, "truncated"),
    ("codex", "prose", {"do": "text", "text": "no object here"}, 1, "not_json"),
    ("codex", "nothing", {"do": "text", "text": ""}, 1, "empty"),
    ("codex", "tools without end", {"do": "call", "name": "exec", "given": "text('on and on')"}, 6, "turns"),
]  # fmt: skip


@real
@pytest.mark.parametrize(
    ("program", "cause", "entry", "requests", "kind"), CASES, ids=[f"{case[0]}-{case[1]}" for case in CASES]
)
def test_every_failure_has_its_kind(
    tmp_path: Path, program: str, cause: str, entry: dict[str, Any], requests: int, kind: str
) -> None:
    """The vendor fails for the requests of one call. What can pass is asked for again, and answered."""
    with serving([*[entry] * requests, OK]) as vendor:
        here = RealDesk(tmp_path, program, vendor.url)
        roles = here.roles()
        failed = None
        try:
            roles.analyst("# Task\nWords about round 1.", round=1)
        except RoleFailure as failure:
            failed = failure
        asked = len(vendor.asked)
    (first, said), *rest = here.outcomes()
    passes = kind in RETRYABLE | REPAIRABLE
    if first == "ok":  # an answer that is not one is found out afterwards
        assert kind in ("not_json", "empty", "refusal")
    else:
        assert first == kind
    if passes:
        assert failed is None
        assert [outcome for outcome, _ in rest] == ["ok"]
        assert asked == requests + 1
    else:
        assert failed is not None
        assert failed.kind == kind
        assert asked == requests
        assert bool(failed.hint) == (kind in LASTING)
    assert roles.ledger.totals().spent >= vendor.bill * NANO  # nothing that was billed is missing
    shown = " ".join(said.split())[:90] or "(an answer, which is of no use)"
    note("failures", program, cause, kind, requests, shown)


@real
@pytest.mark.parametrize("program", ["claude", "codex"])
def test_no_login_and_no_vendor(tmp_path: Path, program: str) -> None:
    with serving([OK]) as vendor:
        here = RealDesk(tmp_path, program, vendor.url)
    with pytest.raises(RoleFailure) as caught:  # nobody listens there any more
        here.roles(deadline_s=40).analyst("context", round=1)
    assert caught.value.kind == "connection"
    note("failures", program, "no vendor", caught.value.kind, 0, caught.value.what[:90])
    assert here.roles().ledger.totals().spent == 0
    if program == "claude":
        here.environ.pop("ANTHROPIC_API_KEY")
        with pytest.raises(RoleFailure) as caught:
            here.roles().analyst("context", round=1)
        assert caught.value.kind == "login"
        note("failures", program, "no key and no login", caught.value.kind, 0, caught.value.what[:90])


@real
@pytest.mark.parametrize("program", ["claude", "codex"])
def test_at_the_deadline_it_is_ended(tmp_path: Path, program: str) -> None:
    for deadline_s in ever_longer(6.0):
        with serving([{"do": "break", "hang": 20 * deadline_s}]) as vendor:
            (folder := tmp_path / str(deadline_s)).mkdir()
            here = RealDesk(folder, program, vendor.url)
            roles = here.roles(deadline_s=deadline_s)
            with pytest.raises(RoleFailure) as caught:
                roles.analyst("context", round=1)
        assert caught.value.kind == "deadline"
        if vendor.asked:
            break
    note("failures", program, "a vendor that hangs", caught.value.kind, len(vendor.asked), caught.value.what)
    assert NANO > roles.ledger.totals().spent >= vendor.bill * NANO  # not the whole dollar that was set aside
