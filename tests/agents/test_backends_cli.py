"""`claude` and `codex` as subprocesses: real programs on PATH that speak the real protocol, and fail in real ways."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
from contexts import CODE, IDEA, WORDS
from deadlines import ever_longer
from desk import KEY, Desk

from autoqec.agents.accounting import Caps
from autoqec.agents.failures import RoleFailure
from autoqec.errors import InputError, UnavailableError


@pytest.fixture
def desk(tmp_path: Path) -> Callable[[str], Desk]:
    return lambda program: Desk(Path(mkdtemp(dir=tmp_path)), program)


BOTH = pytest.mark.parametrize("program", ["claude", "codex"])


@BOTH
def test_every_role_gets_its_answer_and_its_cost(desk: Callable[[str], Desk], program: str) -> None:
    here = desk(program)
    here.plan()
    roles = here.roles()
    assert roles.ideator("the context", round=1).response.hypothesis == IDEA["hypothesis"]
    assert roles.coder("the context", round=1).response.dsl_config == CODE["dsl_config"]
    answer = roles.analyst("the context", round=1)
    assert answer.response.verdict == "candidate"
    # claude says 0.0123; codex says 5000 + 4000 cached + 500 tokens, at gpt-6.1-terra's 1.00, 0.05 and 5.00
    assert answer.cost_usd == {"claude": 0.0123, "codex": 0.0077}[program]
    assert roles.ledger.totals().spent_usd == pytest.approx(3 * answer.cost_usd, abs=1e-12)
    assert [call["role"] for call in here.calls()] == ["ideator", "coder", "analyst"]
    assert all("the context" in call["prompt"] for call in here.calls())


def _value(argv: list[str], flag: str) -> str:
    return argv[argv.index(flag) + 1]


def test_claude_is_told_its_limits(desk: Callable[[str], Desk]) -> None:
    here = desk("claude")
    here.plan()
    roles = here.roles(caps=Caps(call=Decimal("0.50")))
    roles.ideator("context", round=1)
    roles.coder("context", round=1)
    roles.analyst("context", round=1)
    ideator, coder, analyst = (call["argv"] for call in here.calls())
    assert _value(ideator, "--tools") == "Read,Grep,Glob"
    assert _value(coder, "--tools") == "Read,Write,Edit,Grep,Glob"
    assert _value(analyst, "--tools") == "Read,Grep"
    assert _value(ideator, "--allowedTools") == "Read(./**)"
    assert _value(coder, "--allowedTools") == "Read(./**),Edit(./**)"
    for argv in (ideator, coder, analyst):
        assert _value(argv, "--permission-mode") == "dontAsk"
        assert float(_value(argv, "--max-budget-usd")) == 0.4  # four fifths of what is reserved
        assert _value(argv, "--output-format") == "json"
        assert {"--strict-mcp-config", "--no-session-persistence"} <= set(argv)
        assert json.loads(_value(argv, "--json-schema"))["additionalProperties"] is False


def test_codex_has_no_shell_and_writes_only_for_the_coder(desk: Callable[[str], Desk]) -> None:
    here = desk("codex")
    here.plan()
    roles = here.roles()
    roles.ideator("context", round=1)
    roles.coder("context", round=1)
    roles.analyst("context", round=1)
    ideator, coder, analyst = (call["argv"] for call in here.calls())
    assert (_value(ideator, "-s"), _value(coder, "-s"), _value(analyst, "-s")) == (
        "read-only",
        "workspace-write",
        "read-only",
    )
    for argv in (ideator, coder, analyst):
        settings = [argv[i + 1] for i, word in enumerate(argv) if word == "-c"]
        assert {"features.shell_tool=false", "features.unified_exec=false", 'web_search="disabled"'} <= set(
            settings
        )
        assert {"--ephemeral", "--ignore-user-config", "--skip-git-repo-check", "--json"} <= set(argv)


@BOTH
def test_nobody_gets_a_shell_and_only_the_coder_writes_into_its_folder(
    desk: Callable[[str], Desk], program: str, tmp_path: Path
) -> None:
    here = desk(program)
    worktree = tmp_path / "worktree"
    worktree.mkdir()
    edit = {"do": "edit", "path": "autoqec/decoders/modules/new.py", "content": "X = 1\n"}
    here.plan(
        ideator=[{**edit, "answer": IDEA}, {"do": "shell", "answer": IDEA}], coder=[{**edit, "answer": CODE}]
    )
    roles = here.roles()
    roles.ideator("context", round=1)
    assert not Path(here.calls()[0]["cwd"]).exists()  # an empty folder that is gone
    assert roles.ideator("context", round=1).response.rationale == "no shell here"
    roles.coder("context", round=1, folder=worktree)
    assert (worktree / "autoqec/decoders/modules/new.py").read_text() == "X = 1\n"
    assert here.calls()[2]["cwd"] == str(worktree)


@BOTH
def test_the_program_sees_its_own_key_and_no_other(desk: Callable[[str], Desk], program: str) -> None:
    here = desk(program)
    here.plan()
    here.roles().ideator("context", round=1)
    seen = here.calls()[0]["env"]
    own, other = (
        ("ANTHROPIC_API_KEY", "OPENAI_API_KEY")
        if program == "claude"
        else ("OPENAI_API_KEY", "ANTHROPIC_API_KEY")
    )
    assert seen[own].startswith(KEY)
    assert other not in seen
    assert "GITHUB_TOKEN" not in seen
    assert not any(name.startswith("AUTOQEC_IDEATOR") for name in seen)


@BOTH
def test_a_key_that_the_model_repeats_is_not_written_down_anywhere(
    desk: Callable[[str], Desk], program: str
) -> None:
    here = desk(program)
    here.plan(
        ideator=[{"do": "leak", "answer": IDEA}],
        coder=[{"do": "text", "text": f"no json, but {KEY}-{program}"}],
    )
    here.environ["LEAKED_TOKEN"] = f"{KEY}-{program}"
    roles = here.roles()
    assert roles.ideator(f"context with {KEY}-openai", round=1).response.rationale == "the key is [redacted]"
    with pytest.raises(RoleFailure) as caught:
        roles.coder("context", round=1)
    assert KEY not in str(caught.value) + json.dumps(caught.value.row()) + caught.value.reply
    assert "[redacted]" in here.left_behind()
    assert KEY not in here.left_behind()


@BOTH
@pytest.mark.parametrize(
    "text",
    [
        "Here is my proposal:\n```json\n%s\n```\nGood luck!",
        'Thinking about {braces} and {"a": 1} first.\n%s',
        "%s\n\nThat is my answer.",
    ],
)
def test_json_is_found_in_prose(desk: Callable[[str], Desk], program: str, text: str) -> None:
    here = desk(program)
    here.plan(analyst=[{"do": "text", "text": text % json.dumps(WORDS)}])
    answer = here.roles().analyst("context", round=1)
    assert answer.response.model_dump() == WORDS
    assert answer.calls == 1


@BOTH
def test_a_schema_violation_is_repaired_with_the_error_quoted(
    desk: Callable[[str], Desk], program: str
) -> None:
    here = desk(program)
    wrong = {**WORDS, "verdict": "brilliant"}
    here.plan(analyst=[{"do": "answer", "answer": wrong}, {"do": "answer", "answer": WORDS}])
    answer = here.roles().analyst("the context", round=1)
    assert answer.calls == 2
    second = here.calls()[1]["prompt"]
    assert "the context" in second
    assert "expected one of 'candidate' or 'ignore', got 'brilliant'" in second
    assert '"verdict": "brilliant"' in second


@BOTH
def test_two_repairs_are_all_there_are(desk: Callable[[str], Desk], program: str) -> None:
    here = desk(program)
    here.plan(analyst=[{"do": "answer", "answer": {"verdict": "candidate"}}])
    with pytest.raises(RoleFailure) as caught:
        here.roles().analyst("context", round=1)
    assert (caught.value.kind, caught.value.role, caught.value.calls) == ("schema", "analyst", 3)
    assert len(here.calls()) == 3
    assert "summary_1line" in caught.value.row()["reason"]


FAILURES = [
    ("claude", {"do": "not_json"}, "crash", 1),
    ("claude", {"do": "text", "text": "no object here"}, "not_json", 3),
    ("claude", {"do": "text", "text": ""}, "empty", 3),
    ("claude", {"do": "text", "text": "I'm sorry, I cannot help with decoders."}, "refusal", 1),
    ("claude", {"do": "refusal"}, "refusal", 1),
    ("claude", {"do": "subtype", "subtype": "error_max_budget_usd"}, "budget", 1),
    ("claude", {"do": "subtype", "subtype": "error_max_turns"}, "turns", 1),
    ("claude", {"do": "subtype", "subtype": "error_max_structured_output_retries"}, "schema", 3),
    ("claude", {"do": "subtype", "subtype": "error_during_execution"}, "crash", 1),
    ("claude", {"do": "crash"}, "crash", 1),
    ("claude", {"do": "crash", "code": 139, "text": ""}, "crash", 1),
    ("claude", {"do": "api_error", "text": "Invalid API key · Please run /login"}, "login", 1),
    (
        "claude",
        {"do": "api_error", "text": "API Error: Request rejected (429) · Rate limited. Retry after 0.01s"},
        "rate_limit",
        4,
    ),
    ("claude", {"do": "api_error", "text": "API Error: 529 Overloaded"}, "overloaded", 4),
    ("claude", {"do": "api_error", "text": "Claude AI usage limit reached|99999999999"}, "rate_limit", 1),
    ("claude", {"do": "api_error", "status": 400, "text": "Credit balance is too low"}, "credit", 1),
    ("claude", {"do": "api_error", "status": 402, "text": "API Error: 402 Your account has an unpaid invoice"}, "credit", 1),
    ("claude", {"do": "api_error", "status": 404, "text": "There's an issue with the selected model (claude-x). It may not exist or you may not have access to it."}, "model", 1),
    ("claude", {"do": "api_error", "status": 401, "text": "Invalid API key · Fix external API key"}, "login", 1),
    ("claude", {"do": "api_error", "text": "Not logged in · Please run /login"}, "login", 1),
    ("claude", {"do": "api_error", "status": 400, "text": "API Error: 400 messages: field is odd"}, "request", 1),
    ("claude", {"do": "api_error", "status": 529, "text": "API Error: Overloaded"}, "overloaded", 4),
    ("claude", {"do": "api_error", "text": "API Error: Connection to the API was lost (ECONNRESET). This is usually temporary — try again."}, "connection", 4),
    ("claude", {"do": "api_error", "text": "API Error: Claude's response exceeded the 8000 output token maximum."}, "truncated", 3),
    ("codex", {"do": "api_error", "text": "Quota exceeded. Check your plan and billing details."}, "credit", 1),
    ("codex", {"do": "api_error", "text": "The model `gpt-x` does not exist or you do not have access to it."}, "model", 1),
    ("codex", {"do": "api_error", "text": "We’re currently experiencing high demand, which may cause temporary errors."}, "overloaded", 4),
    ("codex", {"do": "api_error", "text": "exceeded retry limit, last status: 429 Too Many Requests"}, "rate_limit", 4),
    ("codex", {"do": "api_error", "text": "stream disconnected before completion: Transport error: network error: error decoding response body"}, "connection", 4),
    ("codex", {"do": "api_error", "text": "Incomplete response returned, reason: max_output_tokens"}, "truncated", 3),
    ("codex", {"do": "api_error", "text": "Invalid prompt: your prompt was flagged as potentially violating our usage policy."}, "refusal", 1),
    ("codex", {"do": "api_error", "text": "Codex ran out of room in the model's context window. Start a new thread."}, "request", 1),
    ("codex", {"do": "not_json"}, "crash", 1),
    ("codex", {"do": "text", "text": "I can't assist with that."}, "refusal", 1),
    ("codex", {"do": "text", "text": '{"verdict": "candidate", "verdict": "ignore"}'}, "not_json", 3),
    ("codex", {"do": "crash"}, "crash", 1),
    (
        "codex",
        {"do": "api_error", "text": "stream disconnected: exceeded rate limit. Please try again in 10ms."},
        "rate_limit",
        4,
    ),
    ("codex", {"do": "api_error", "text": "You've hit your usage limit. Try again in 3 h."}, "rate_limit", 1),
    ("codex", {"do": "api_error", "text": "Selected model is at capacity", "code": 0}, "overloaded", 4),
    ("codex", {"do": "api_error", "text": "unexpected status 401 Unauthorized"}, "login", 1),
    ("codex", {"do": "api_error", "text": "shared rollout token budget exhausted"}, "crash", 1),
]  # fmt: skip


@pytest.mark.parametrize(("program", "entry", "kind", "calls"), FAILURES)
def test_every_failure_has_a_kind_and_a_row(
    desk: Callable[[str], Desk], program: str, entry: dict[str, Any], kind: str, calls: int
) -> None:
    here = desk(program)
    here.plan(analyst=[entry])
    roles = here.roles()
    with pytest.raises(RoleFailure) as caught:
        roles.analyst("context", round=3)
    failure = caught.value
    assert (failure.kind, failure.calls, len(here.calls())) == (kind, calls, calls)
    row = json.loads(json.dumps(failure.row()))
    assert row["kind"] == kind
    assert row["role"] == "analyst"
    assert "\n" not in row["reason"]
    assert roles.ledger.totals(round=3).calls == calls  # every call is settled
    assert roles.ledger.totals().in_flight == 0


@BOTH
def test_a_rate_limit_that_passes_is_waited_for(desk: Callable[[str], Desk], program: str) -> None:
    here = desk(program)
    busy = {"do": "api_error", "text": "429 rate limit, retry after 5ms"}
    here.plan(analyst=[busy, busy, {"do": "answer", "answer": WORDS}])
    assert here.roles().analyst("context", round=1).calls == 3


def test_an_error_event_while_codex_reconnects_is_no_failure(desk: Callable[[str], Desk]) -> None:
    here = desk("codex")
    here.plan(analyst=[{"do": "reconnect", "answer": WORDS}])
    assert here.roles().analyst("context", round=1).calls == 1


def test_notices_before_the_result_do_not_matter(desk: Callable[[str], Desk]) -> None:
    here = desk("claude")
    here.plan(analyst=[{"do": "noise", "text": json.dumps(WORDS)}])
    assert here.roles().analyst("context", round=1).calls == 1


@BOTH
def test_at_the_deadline_everything_that_was_started_is_ended(
    desk: Callable[[str], Desk], program: str
) -> None:
    for deadline_s in ever_longer(5.0):
        here = desk(program)
        here.plan(ideator=[{"do": "hang"}])
        roles = here.roles(deadline_s=deadline_s, caps=Caps(total=Decimal(5), call=Decimal("0.70")))
        with pytest.raises(RoleFailure) as caught:
            roles.ideator("context", round=1)
        assert caught.value.kind == "deadline"
        if (here.home / "grandchild").exists():
            break
    with pytest.raises(ProcessLookupError):
        os.kill(int((here.home / "grandchild").read_text()), 0)
    # nobody knows what it cost: the whole reservation counts
    assert roles.ledger.totals().spent_usd == 0.70


def test_claude_may_spend_what_is_left_and_no_more(desk: Callable[[str], Desk]) -> None:
    here = desk("claude")
    here.plan(analyst=[{"do": "answer", "answer": WORDS, "cost": 0.31}])
    roles = here.roles(caps=Caps(total=Decimal("1.00"), call=Decimal("0.50")))
    for _ in range(3):
        roles.analyst("context", round=1)
    told = [float(_value(call["argv"], "--max-budget-usd")) for call in here.calls()]
    assert told == [0.4, 0.4, 0.304]  # 0.50, 0.50 and the last 0.38
    here.plan(analyst=[{"do": "answer", "answer": WORDS, "cost": 0.05}])
    roles.analyst("context", round=1)
    with pytest.raises(RoleFailure, match=r"\$0.02 of the budget is left") as caught:
        roles.analyst("context", round=1)
    assert caught.value.kind == "budget"
    assert roles.ledger.totals().spent_usd == 0.98


def test_the_cost_of_a_stopped_call_counts(desk: Callable[[str], Desk]) -> None:
    here = desk("claude")
    here.plan(analyst=[{"do": "subtype", "subtype": "error_max_budget_usd", "cost": 0.42}])
    roles = here.roles()
    with pytest.raises(RoleFailure):
        roles.analyst("context", round=1)
    assert roles.ledger.totals().spent_usd == 0.42


def test_codex_without_a_price_keeps_no_cap(desk: Callable[[str], Desk]) -> None:
    here = desk("codex")
    here.plan()
    here.environ["AUTOQEC_IDEATOR_MODEL"] = "gpt-6-astra"
    assert here.roles().ideator("context", round=1).cost_usd == 0.0
    with pytest.raises(InputError, match=r"price of model 'gpt-6-astra'"):
        here.roles(caps=Caps(total=Decimal(1)))
    assert len(here.calls()) == 1


@BOTH
def test_a_missing_program_says_what_to_install_and_names_the_offline_proposers(
    desk: Callable[[str], Desk], program: str, tmp_path: Path
) -> None:
    here = desk(program)
    here.environ["PATH"] = str(tmp_path)
    with pytest.raises(UnavailableError) as caught:
        here.roles()
    said = str(caught.value)
    assert program in said
    assert "npm install" in said
    for proposer in ("optuna", "evolution", "templates"):
        assert proposer in said
    assert caught.value.exit_code == 2
