"""The HTTP backends against a real server on loopback: both shapes, and everything that goes wrong on the way."""

from __future__ import annotations

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
from contexts import RUN_ID, WORDS
from deadlines import ever_longer
from vendor import Vendor, serving

from autoqec.agents.accounting import Caps
from autoqec.agents.failures import RoleFailure
from autoqec.agents.prompts import role_prompt
from autoqec.agents.roles import Roles
from autoqec.errors import InputError, UnavailableError
from autoqec.layout import RunDir

KEY = "sk-test-0123456789abcdef"
OK = {"do": "answer", "answer": WORDS}
BOTH = pytest.mark.parametrize("vendor", ["anthropic", "openai"])


def roles(folder: Path, vendor: str, url: str, *, model: str | None = None, **options: Any) -> Roles:
    environ = {
        "AUTOQEC_IDEATOR_BACKEND": vendor,
        "AUTOQEC_IDEATOR_MODEL": model
        or {"anthropic": "claude-sonnet-5-5", "openai": "gpt-6.1-terra"}[vendor],
        "ANTHROPIC_API_KEY": KEY,
        "ANTHROPIC_BASE_URL": url,
        "OPENAI_API_KEY": KEY,
        "OPENAI_BASE_URL": f"{url}/v1",
    }
    run = RunDir(folder / RUN_ID)
    run.path.mkdir(exist_ok=True)
    return Roles(run, environ=environ | options.pop("environ", {}), **{"backoff_s": 0.01, **options})


@BOTH
def test_an_answer_with_its_cost_from_the_tokens(tmp_path: Path, vendor: str) -> None:
    with serving([OK]) as server:
        answer = roles(tmp_path, vendor, server.url).analyst("the context", round=1)
    assert answer.response.model_dump() == WORDS
    # 4000 in and 300 out at 2 and 10; 3000 in, 1000 cached and 300 out at 1, 0.05 and 5
    assert answer.cost_usd == {"anthropic": 0.011, "openai": 0.00455}[vendor]


def test_what_anthropic_is_sent(tmp_path: Path) -> None:
    with serving([OK]) as server:
        roles(tmp_path, "anthropic", server.url).analyst("the context", round=1)
        sent = server.requests[0]
    headers = {name.lower(): value for name, value in sent["headers"].items()}
    assert sent["path"] == "/v1/messages"
    assert headers["x-api-key"] == KEY
    assert headers["anthropic-version"] == "2023-06-01"
    assert sent["body"]["system"] == role_prompt("analyst").text
    assert sent["body"]["messages"] == [{"role": "user", "content": "the context"}]
    assert sent["body"]["output_config"]["format"]["schema"]["additionalProperties"] is False
    assert sent["body"]["max_tokens"] == 8_000


def test_what_openai_is_sent(tmp_path: Path) -> None:
    with serving([OK]) as server:
        roles(tmp_path, "openai", server.url).analyst("the context", round=1)
        sent = server.requests[0]
    headers = {name.lower(): value for name, value in sent["headers"].items()}
    assert sent["path"] == "/v1/chat/completions"
    assert headers["authorization"] == f"Bearer {KEY}"
    assert [message["role"] for message in sent["body"]["messages"]] == ["system", "user"]
    assert sent["body"]["response_format"]["json_schema"]["strict"] is True


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Unsupported parameter: 'max_completion_tokens'", {"max_tokens"}),
        ("response_format json_schema is not supported", {"max_completion_tokens"}),
    ],
)
def test_a_server_that_knows_less_is_asked_in_older_words(
    tmp_path: Path, text: str, expected: set[str]
) -> None:
    with serving([{"do": "status", "status": 400, "text": text}, OK]) as server:
        answer = roles(tmp_path, "openai", server.url, model="local", environ={"OPENAI_API_KEY": ""}).analyst(
            "c", round=1
        )
        second = server.requests[1]
    assert answer.response.model_dump() == WORDS
    assert expected <= second["body"].keys()
    assert (
        text.split(maxsplit=1)[0].strip("'") not in second["body"] or "response_format" not in second["body"]
    )
    assert "authorization" not in {name.lower() for name in second["headers"]}


@BOTH
@pytest.mark.parametrize(
    ("entry", "kind", "calls"),
    [
        ({"do": "status", "status": 401, "text": "invalid x-api-key"}, "login", 1),
        ({"do": "status", "status": 403}, "login", 1),
        ({"do": "status", "status": 400, "text": "credit balance is too low"}, "credit", 1),
        ({"do": "status", "status": 404, "text": "model: nope"}, "model", 1),
        ({"do": "status", "status": 302, "headers": {"location": "http://127.0.0.1:1/steal"}}, "request", 1),
        ({"do": "status", "status": 429, "headers": {"retry-after": "0"}}, "rate_limit", 4),
        ({"do": "status", "status": 429, "headers": {"retry-after": "7200"}}, "rate_limit", 1),
        ({"do": "status", "status": 500, "body": "oops"}, "overloaded", 4),
        ({"do": "status", "status": 529, "text": "Overloaded"}, "overloaded", 4),
        ({"do": "cut", "answer": WORDS}, "connection", 4),
        ({"do": "garbage"}, "connection", 4),
        ({"do": "refusal", "text": "I can't."}, "refusal", 1),
        ({"do": "truncated", "text": '{"summary_1line": "The'}, "truncated", 3),
        ({"do": "answer", "text": ""}, "empty", 3),
        ({"do": "answer", "text": "[1, 2]"}, "not_json", 3),
        ({"do": "answer", "answer": {**WORDS, "extra": 1}}, "schema", 3),
    ],
)  # fmt: skip
def test_every_failure_has_a_kind(
    tmp_path: Path, vendor: str, entry: dict[str, Any], kind: str, calls: int
) -> None:
    with serving([entry]) as server:
        team = roles(tmp_path, vendor, server.url)
        with pytest.raises(RoleFailure) as caught:
            team.analyst("context", round=1)
        assert len(server.requests) == calls
    assert (caught.value.kind, caught.value.calls) == (kind, calls)
    assert KEY not in str(caught.value)
    assert team.ledger.totals().in_flight == 0


@BOTH
def test_a_passing_limit_and_a_passing_error_are_waited_for(tmp_path: Path, vendor: str) -> None:
    limit = {"do": "status", "status": 429, "headers": {"retry-after-ms": "5"}}
    moment = {"do": "status", "status": 503, "headers": {"retry-after": formatdate(0, usegmt=True)}}
    with serving([limit, moment, OK]) as server:
        assert roles(tmp_path, vendor, server.url).analyst("context", round=1).calls == 3


@BOTH
def test_a_body_that_never_ends_is_cut_at_the_deadline(tmp_path: Path, vendor: str) -> None:
    """Each byte comes in time, the whole never would: 400 bytes, ten of them until the deadline."""
    for deadline_s in ever_longer(1.0):
        with serving([{"do": "drip", "pause": 0.1 * deadline_s, "answer": WORDS}]) as server:
            folder = tmp_path / f"{deadline_s:g}"
            folder.mkdir()
            team = roles(folder, vendor, server.url, deadline_s=deadline_s, caps=Caps(total=Decimal(1)))
            with pytest.raises(RoleFailure) as caught:
                team.analyst("context", round=1)
        if server.requests:
            break
    assert caught.value.kind == "deadline"
    spent = team.ledger.totals().spent
    assert spent > 0  # it may have been charged, so the whole reservation counts
    assert team.ledger.totals().in_flight == 0


def test_a_server_that_is_not_there_is_a_connection_error_that_costs_nothing(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    team = roles(tmp_path, "openai", url)
    with pytest.raises(RoleFailure) as caught:
        team.analyst("context", round=1)
    assert (caught.value.kind, caught.value.calls) == ("connection", 4)
    assert team.ledger.totals().spent == 0


def test_an_error_status_is_not_charged(tmp_path: Path) -> None:
    with serving([{"do": "status", "status": 500}]) as server:
        team = roles(tmp_path, "anthropic", server.url, caps=Caps(total=Decimal(1)))
        with pytest.raises(RoleFailure):
            team.analyst("context", round=1)
    assert team.ledger.totals().spent == 0


@BOTH
def test_the_worst_case_is_reserved_before_anything_is_sent(tmp_path: Path, vendor: str) -> None:
    with serving([OK]) as server:
        team = roles(tmp_path, vendor, server.url, caps=Caps(total=Decimal("0.03")))
        with pytest.raises(RoleFailure) as caught:
            team.analyst("context", round=1)
        assert caught.value.kind == "budget"
        assert server.requests == []


def _spend_it_all(team: Roles) -> str:
    try:
        for _ in range(50):
            team.analyst("context", round=1)
    except RoleFailure as failure:
        return failure.kind
    return "not stopped"


def test_the_cap_is_kept_over_many_calls(tmp_path: Path) -> None:
    with serving([OK]) as server:
        team = roles(tmp_path, "anthropic", server.url, caps=Caps(total=Decimal("0.20")))
        assert _spend_it_all(team) == "budget"
        made = len(server.requests)
    assert team.ledger.totals().spent_usd == pytest.approx(made * 0.011, abs=1e-12)
    assert team.ledger.totals().spent_usd <= 0.20
    assert made >= 5


def test_no_key_no_backend(tmp_path: Path) -> None:
    for vendor in ("anthropic", "openai"):
        with pytest.raises(UnavailableError) as caught:
            Roles(RunDir(tmp_path), environ={"AUTOQEC_IDEATOR_BACKEND": vendor, "AUTOQEC_IDEATOR_MODEL": "m"})
        assert f"{vendor.upper()}_API_KEY" in str(caught.value)
        assert "--proposer optuna" in str(caught.value)
        with pytest.raises(UnavailableError, match="_MODEL"):
            Roles(
                RunDir(tmp_path),
                environ={"AUTOQEC_IDEATOR_BACKEND": vendor, f"{vendor.upper()}_API_KEY": KEY},
            )


@pytest.mark.parametrize(
    "url", ["ftp://x", "http://user:pw@127.0.0.1", "nonsense", "http://models.example.org/v1"]
)
def test_a_key_is_not_sent_to_just_anywhere(tmp_path: Path, url: str) -> None:
    with pytest.raises(InputError, match="OPENAI_BASE_URL") as caught:
        roles(tmp_path, "openai", "http://127.0.0.1:1", environ={"OPENAI_BASE_URL": url})
    assert KEY not in str(caught.value)


def test_a_server_of_ones_own_needs_no_key(tmp_path: Path) -> None:
    with serving([OK]) as server:
        team = roles(tmp_path, "openai", server.url, model="llama", environ={"OPENAI_API_KEY": ""})
        assert team.analyst("context", round=1).cost_usd == 0.0


@BOTH
def test_the_key_is_in_nothing_that_the_run_leaves(tmp_path: Path, vendor: str) -> None:
    echo = {"do": "status", "status": 401, "text": f"bad key {KEY}"}
    with serving(
        [{"do": "answer", "answer": {**WORDS, "next_hypothesis_seed": f"use {KEY}"}}, echo]
    ) as server:
        team = roles(tmp_path, vendor, server.url)
        assert team.analyst("context", round=1).response.next_hypothesis_seed == "use [redacted]"
        with pytest.raises(RoleFailure):
            team.analyst("context", round=1)
    left = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.name for path in left} >= {"llm_calls.jsonl", "llm_ledger.jsonl"}
    for path in left:
        assert KEY.encode() not in path.read_bytes()


def test_calls_at_once_share_one_cap(tmp_path: Path) -> None:
    def ask(vendor: Vendor) -> str:
        return _spend_it_all(roles(tmp_path, "anthropic", vendor.url, caps=Caps(total=Decimal("0.25"))))

    with serving([OK]) as server:
        with ThreadPoolExecutor(4) as pool:
            ends = list(pool.map(ask, [server] * 4))
        made = len(server.requests)
    assert set(ends) == {"budget"}
    spent = json.loads(json.dumps(roles(tmp_path, "anthropic", server.url).ledger.summary()))["spent_usd"]
    assert spent == pytest.approx(made * 0.011, abs=1e-12)
    assert spent <= 0.25


def test_https_goes_through_the_proxy_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bytes] = []

    def proxy(listener: socket.socket) -> None:
        for _ in range(4):
            connection, _ = listener.accept()
            with connection:
                asked.append(connection.recv(4096))
                connection.sendall(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:
        done = pool.submit(proxy, listener)
        monkeypatch.setenv("https_proxy", f"http://me:pw@127.0.0.1:{listener.getsockname()[1]}")
        monkeypatch.setenv("no_proxy", "")
        team = roles(tmp_path, "openai", "", environ={"OPENAI_BASE_URL": "https://models.invalid/v1"})
        with pytest.raises(RoleFailure, match="403") as caught:
            team.analyst("context", round=1)
        done.result()
    assert caught.value.kind == "connection"
    assert asked[0].startswith(b"CONNECT models.invalid:443")
    assert b"roxy-authorization: Basic bWU6cHc=" in asked[0]
    assert KEY.encode() not in b"".join(asked)
