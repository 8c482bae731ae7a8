"""Dollar caps of calls through `claude` and `codex`: the programs really send requests, and the vendor keeps the bill."""

from __future__ import annotations

import http.client
import json
import os
import random
import re
import resource
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from urllib.parse import urlsplit

import pytest
from contexts import CODE, WORDS
from deadlines import ever_longer
from desk import KEY, Desk
from vendor import Vendor, serving

from autoqec.agents.accounting import Caps
from autoqec.agents.backends.gateway import open_gateway
from autoqec.agents.backends.metering import Meter, Reader
from autoqec.agents.backends.vendors import ANTHROPIC, OPENAI, Refused
from autoqec.agents.backends.vendors import Vendor as Kind
from autoqec.agents.failures import RoleFailure
from autoqec.agents.prices import NANO, Prices, Usage, nano_of
from autoqec.agents.roles import Roles
from autoqec.errors import InputError

BOTH = pytest.mark.parametrize("program", ["claude", "codex"])
LIMIT = {"claude": "max_tokens", "codex": "max_output_tokens"}
Desks = Callable[[str, Vendor], Desk]


@pytest.fixture
def desk(tmp_path: Path) -> Desks:
    def make(program: str, vendor: Vendor) -> Desk:
        here = Desk(Path(mkdtemp(dir=tmp_path)), program)
        here.environ |= {"ANTHROPIC_BASE_URL": vendor.url, "OPENAI_BASE_URL": f"{vendor.url}/v1"}
        return here

    return make


def asking(*requests: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
    return [{"do": "answer", "answer": WORDS, "requests": list(requests), **more}]


def spent(roles: Roles) -> Fraction:
    return Fraction(roles.ledger.totals().spent, NANO)


def caps(total: str, call: str) -> Caps:
    return Caps(total=Decimal(total), call=Decimal(call))


@BOTH
def test_an_honest_call_costs_what_the_vendor_bills(desk: Desks, program: str) -> None:
    with serving(
        [{"do": "answer", "input": 900, "output": 700}, {"do": "answer", "input": "most"}]
    ) as vendor:
        here = desk(program, vendor)
        here.plan(analyst=asking({}, {"pad": 5000}, {"pad": 10}))
        roles = here.roles(caps=caps("2.00", "0.50"))
        answer = roles.analyst("context", round=1)
        sent = vendor.requests
    assert answer.response.model_dump() == WORDS
    assert spent(roles) == vendor.bill > 0
    assert answer.usage.output == 1300
    assert len(sent) == 3
    for request in sent:
        headers = {name.lower(): value for name, value in request["headers"].items()}
        assert KEY in headers["x-api-key" if program == "claude" else "authorization"]
        assert request["path"] == {"claude": "/v1/messages?beta=true", "codex": "/v1/responses"}[program]
        assert request["body"][LIMIT[program]] == 8_000  # the role's
    assert KEY not in here.left_behind()


@BOTH
def test_over_many_calls_that_overrun_the_vendor_never_bills_more_than_the_cap(
    desk: Desks, program: str
) -> None:
    """Every request is as dear as it can be: a token for each byte, all of it written to a cache, the whole limit of output."""
    with serving([{"do": "answer", "input": "most", "output": 2_000}]) as vendor:
        here = desk(program, vendor)
        here.plan(coder=[{"do": "answer", "answer": CODE, "requests": [{"pad": 3_000}] * 28}])
        roles = here.roles(caps=caps("0.80", "0.30"))
        calls = []
        while not calls or calls[-1]:
            with pytest.raises(RoleFailure) as caught:
                roles.coder("context", round=1)
            assert caught.value.kind == "budget"
            calls.append(caught.value.calls)
        assert calls == [1, 1, 1, 0]  # 0.30, 0.30, the rest, and nothing that would do is left
        assert spent(roles) == vendor.bill
        assert vendor.at_risk <= Fraction("0.80")
        assert vendor.bill > Fraction("0.70")
        rows = [json.loads(line) for line in here.run.llm_ledger.read_text().splitlines()]
        granted = {row["call"]: row["nano_usd"] for row in rows if row["event"] == "reserve"}
        assert all(row["nano_usd"] <= granted[row["call"]] for row in rows if row["event"] == "settle")
        assert "is left" in caught.value.row()["reason"]
        assert KEY not in here.left_behind()

        before = vendor.bill
        free = here.roles()
        free.coder("context", round=1)  # the same turn, without a cap
        assert vendor.bill - before > Fraction("0.30")
        assert spent(free) == vendor.bill  # and counted all the same


def test_codex_has_the_turns_of_its_role(desk: Desks) -> None:
    with serving([{"do": "answer", "output": 10}]) as vendor:
        here = desk("codex", vendor)
        here.plan(analyst=asking(*[{}] * 40))
        roles = here.roles()
        with pytest.raises(RoleFailure, match="its 6 turns are used up") as caught:
            roles.analyst("context", round=1)
        assert caught.value.kind == "turns"
        assert len(vendor.requests) == 6
        assert spent(roles) == vendor.bill


def test_an_answer_that_codex_does_not_show_is_a_refusal(desk: Desks) -> None:
    with serving([{"do": "refusal", "text": "I cannot help with that."}]) as vendor:
        here = desk("codex", vendor)
        here.plan(analyst=[{"do": "text", "text": "", "requests": [{}]}])
        roles = here.roles()
        with pytest.raises(RoleFailure) as caught:
            roles.analyst("context", round=1)
        assert caught.value.kind == "refusal"
        assert spent(roles) == vendor.bill > 0


def test_the_limit_of_output_is_what_can_be_paid(desk: Desks) -> None:
    with serving([{"do": "answer", "input": 100, "output": 10}]) as vendor:
        here = desk("claude", vendor)
        thinking = {"type": "enabled", "budget_tokens": 31_999}
        here.plan(analyst=asking({"pad": 6_000}, {"pad": 6_000, "thinking": thinking}, {"max_tokens": 20}))
        here.roles(caps=caps("1.00", "0.10")).analyst("context", round=1)
        plain, thought, small = (request["body"] for request in vendor.requests)
        size = len(json.dumps(plain, separators=(",", ":")))
    # 0.10 less a token for each byte and 2,000 more at 2.50; the rest at 10.00
    assert plain["max_tokens"] == (nano_of("0.10") - (size + 2_000) * 2_500) // 10_000
    assert 6_000 < thought["max_tokens"] < plain["max_tokens"]
    assert thought["thinking"] == {"type": "enabled", "budget_tokens": thought["max_tokens"] // 2}
    assert small["max_tokens"] == 20


@BOTH
def test_requests_at_once_cannot_pass_the_cap_together(desk: Desks, program: str) -> None:
    """Two worst cases do not fit beside each other: the second waits for what the first leaves."""
    with serving([{"do": "answer", "output": 100, "pause": 0.3}]) as vendor:
        here = desk(program, vendor)
        large = {LIMIT[program]: {"claude": 6_000, "codex": 12_000}[program]}
        here.plan(analyst=asking(large, large, at_once=True))
        roles = here.roles(caps=caps("0.09", "0.09"))
        roles.analyst("context", round=1)
        assert len(vendor.requests) == 2
        assert spent(roles) == vendor.bill
        assert vendor.at_risk <= Fraction("0.09")

        here.plan(analyst=asking(*[{"pad": 2_000}] * 6, at_once=True))
        vendor.plan = [{"do": "answer", "input": "most", "output": 10_000}]
        with pytest.raises(RoleFailure) as caught:
            roles.analyst("context", round=1)
        assert caught.value.kind == "budget"
        assert vendor.at_risk <= Fraction("0.09")


def test_a_stream_that_breaks_counts_its_worst_case(desk: Desks) -> None:
    """Codex connects again, and the gateway pays for that, too."""
    with serving([{"do": "break", "output": 8_000}, {"do": "answer", "output": 50}]) as vendor:
        here = desk("codex", vendor)
        here.plan(analyst=asking({}))
        roles = here.roles(caps=caps("1.00", "0.50"))
        roles.analyst("context", round=1)
        broken = vendor.requests[0]["body"]
        size = len(json.dumps(broken, separators=(",", ":")))
    worst = (size + 2_000) * 1_250 + 8_000 * 5_000
    assert roles.ledger.totals().spent == worst + 200 * 1_000 + 50 * 5_000
    assert spent(roles) >= vendor.bill


def test_after_a_broken_stream_claude_asks_once_more(desk: Desks) -> None:
    with serving([{"do": "break"}, {"do": "answer", "output": 50}]) as vendor:
        here = desk("claude", vendor)
        here.plan(analyst=asking({"max_tokens": 5_000}))
        roles = here.roles(caps=caps("1.00", "0.50"))
        roles.analyst("context", round=1)
        assert [request["body"]["stream"] for request in vendor.requests] == [True, True]
        size = len(json.dumps(vendor.requests[0]["body"], separators=(",", ":")))
    worst = (size + 2_000) * 2_500 + 5_000 * 10_000
    assert roles.ledger.totals().spent == worst + 200 * 2_000 + 50 * 10_000


@BOTH
def test_a_model_without_a_price_is_not_asked(desk: Desks, program: str) -> None:
    with serving([{"do": "answer"}]) as vendor:
        here = desk(program, vendor)
        here.plan(analyst=asking({"model": "unheard-of-1"}))
        roles = here.roles(caps=caps("1.00", "0.50"))
        with pytest.raises(RoleFailure, match=r"price of model 'unheard-of-1' is not known") as caught:
            roles.analyst("context", round=1)
        assert caught.value.kind == "budget"
        assert vendor.requests == []
    assert roles.ledger.totals().spent == 0


@BOTH
def test_an_error_of_the_vendor_costs_nothing_and_stays_what_it_is(desk: Desks, program: str) -> None:
    limit = {"do": "status", "status": 429, "text": "rate limit, retry after 5ms"}
    with serving([limit, limit, {"do": "answer"}]) as vendor:  # either program tries again once
        here = desk(program, vendor)
        here.plan(analyst=asking({}))
        roles = here.roles(caps=caps("1.00", "0.50"))
        assert roles.analyst("context", round=1).calls == 2
        assert len(vendor.requests) == 3
    assert spent(roles) == vendor.bill


@BOTH
def test_at_the_deadline_the_call_is_cut_and_counts_what_was_in_flight(desk: Desks, program: str) -> None:
    for deadline_s in ever_longer(4.0):
        with serving([{"do": "answer", "output": 100}, {"do": "break", "hang": 2 * deadline_s}]) as vendor:
            here = desk(program, vendor)
            here.plan(analyst=asking({}, {LIMIT[program]: 2_000}))
            roles = here.roles(deadline_s=deadline_s, caps=caps("1.00", "0.50"))
            with pytest.raises(RoleFailure) as caught:
                roles.analyst("context", round=1)
        assert caught.value.kind == "deadline"
        if len(vendor.requests) < 2:
            continue  # it had no time to ask
        assert 0 < vendor.bill <= spent(roles) < Fraction("0.10")  # not the whole reservation
        assert roles.ledger.totals().in_flight == 0
        call = here.calls()[-1]
        url = re.search(r"http://127[^\"]*", " ".join(call["argv"]) if program == "codex" else call["env"]["ANTHROPIC_BASE_URL"])  # fmt: skip
        assert url is not None
        with pytest.raises(ConnectionRefusedError):
            post(url[0], OPENAI.asks, BODY)
        return


def _metered(here: Desk) -> bool:
    call = here.calls()[-1]
    if here.program == "claude":
        return call["env"].get("ANTHROPIC_BASE_URL") != here.environ["ANTHROPIC_BASE_URL"]
    return 'model_provider="autoqec"' in call["argv"]


@BOTH
def test_a_gateway_is_there_for_a_key_and_for_nothing_else(desk: Desks, program: str) -> None:
    def ask(given: Caps | None = None) -> bool:
        here.roles(caps=given).analyst("context", round=1)
        return _metered(here)

    with serving([{"do": "answer"}]) as vendor:
        here = desk(program, vendor)
        here.plan()
        cap = caps("9.00", "0.50")
        assert ask()
        assert ask(cap)
        call = here.calls()[-1]
        assert "127.0.0.1" in call["env"]["NO_PROXY"] == call["env"]["no_proxy"]
        if program == "codex":  # a login that Codex has stored is the one it uses
            (here.home / ".codex").mkdir()
            (here.home / ".codex" / "auth.json").write_text("{}")
            assert not ask(cap)
            here.environ["CODEX_API_KEY"] = f"{KEY}-codex"
            assert ask(cap)
            assert 'env_key="CODEX_API_KEY"' in " ".join(here.calls()[-1]["argv"])
        else:
            here.environ["CLAUDE_CODE_USE_BEDROCK"] = "1"
            assert not ask(cap)
            here.environ["CLAUDE_CODE_USE_BEDROCK"] = "0"
            assert ask(cap)
        for name in ("OPENAI_API_KEY", "CODEX_API_KEY", "ANTHROPIC_API_KEY"):  # a subscription
            here.environ.pop(name, None)
        assert not ask(cap)
        assert here.roles().ledger.totals().spent > 0  # what the program says


def test_a_key_goes_over_https_or_to_this_machine(desk: Desks) -> None:
    with serving([{"do": "answer"}]) as vendor:
        here = desk("codex", vendor)
        here.environ["OPENAI_BASE_URL"] = "http://models.example.org/v1"
        for given in (None, caps("1.00", "0.50")):
            with pytest.raises(InputError, match="key of OPENAI_API_KEY over an open connection"):
                here.roles(caps=given)
        for base in ("https://models.example.org:port/v1", "https://[models.example.org/v1"):
            here.environ["OPENAI_BASE_URL"] = base
            with pytest.raises(InputError, match="is not the address of an API"):
                here.roles(caps=caps("1.00", "0.50"))


@contextmanager
def gateway(vendor: Vendor, budget: str = "1.00", *, openai: bool = True) -> Iterator[tuple[str, Meter]]:
    kind = OPENAI if openai else ANTHROPIC
    meter = Meter(kind, Prices({}), budget=nano_of(budget), output_tokens=4_000)
    upstream = urlsplit(f"{vendor.url}/v1" if openai else vendor.url)
    with open_gateway(meter, upstream, deadline_s=300.0) as url:
        yield url, meter


def post(url: str, path: str, body: Any = None, method: str = "POST") -> tuple[int, Any]:
    split = urlsplit(url)
    connection = http.client.HTTPConnection(split.hostname or "", split.port)
    try:
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        connection.request(method, split.path + path, data, {"authorization": f"Bearer {KEY}"})
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


BODY = {"model": "gpt-5.4", "input": "hello"}


def test_only_what_is_paid_for_or_known_to_be_free_passes() -> None:
    with serving([{"do": "answer"}]) as vendor:
        with gateway(vendor) as (url, meter):
            assert post(url, "/models?client_version=1", method="GET") == (200, {"data": []})
            assert post(url, "/responses", BODY)[0] == 200
            refused = [
                post(url, "/chat/completions", BODY),
                post(url, "/responses/compact", BODY),
                post(url, "/embeddings", BODY),
                post(url, "/responses/resp_1", method="GET"),
                post(url.rpartition("/")[0], "/responses", BODY),
                post(f"{url}x", "/responses", BODY),
                post(url.rpartition("/")[0] + "/secret", "/responses", BODY),
            ]
            assert [status for status, _ in refused] == [404] * 7
            assert [request["path"] for request in vendor.requests] == ["/v1/models?client_version=1", "/v1/responses"]  # fmt: skip
            assert meter.cost == vendor.bill * NANO
        with gateway(vendor, openai=False) as (url, meter):
            asked = {"model": "claude-sonnet-5-5", "messages": []}
            assert post(url, "/v1/messages/count_tokens?beta=true", asked)[0] == 200
            assert post(url, "/v1/messages/batches", asked)[0] == 404
            assert meter.cost == 0
        with pytest.raises(ConnectionRefusedError):
            post(url, "/v1/models", method="GET")


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"model": None}, "names no model"),
        ({"previous_response_id": "resp_0"}, "'previous_response_id'"),
        ({"background": True}, "'background'"),
        ({"multi_agent": {"enabled": True}}, "'multi_agent'"),
        ({"input": [{"output": {"type": "computer_screenshot"}}]}, "'computer_screenshot'"),
        ({"type": "tool_use", "input": [{"type": "input_image"}]}, "'input_image'"),
        ({"input": [{"content": [{"type": "input_image", "image_url": "https://x"}]}]}, "'input_image'"),
        ({"input": "x" * 200_000}, "may be priced as a long one"),
        ({"model": "gpt-99"}, "price of model 'gpt-99'"),
    ],
)
def test_what_cannot_be_priced_beforehand_is_refused(change: dict[str, Any], what: str) -> None:
    with serving([{"do": "answer"}]) as vendor, gateway(vendor) as (url, meter):
        status, answer = post(url, "/responses", {**BODY, **change})
        assert status == 400
        assert answer["error"]["message"].startswith("AutoQEC's limits for this call")
        assert what in answer["error"]["message"]
        assert what in str(meter.refused)
        assert post(url, "/responses", b"\x28\xb5\x2f\xfd compressed")[0] == 400
        assert vendor.requests == []
        assert post(url, "/responses", BODY)[0] == 200
        assert meter.refused is None


def test_what_goes_out_has_list_prices_and_no_tools_that_the_vendor_runs() -> None:
    hour = {"type": "ephemeral", "ttl": "1h"}
    own = {"name": "Read", "input_schema": {"type": "object"}, "cache_control": hour}
    said = {"type": "tool_use", "id": "t", "name": "Read", "input": {"type": "image"}, "cache_control": hour}
    text = {"type": "text", "text": "ü", "cache_control": hour}
    body = {
        "model": "claude-sonnet-5-5",
        "service_tier": "auto",
        "tools": [own, {"type": "web_search_20250305", "name": "web_search"}, {"type": "computer_20250124"}],
        "messages": [{"role": "assistant", "content": [said, text]}],
        "stream": False,
    }
    with serving([{"do": "answer"}]) as vendor, gateway(vendor, openai=False) as (url, _):
        assert post(url, "/v1/messages", body)[0] == 200
        sent = vendor.requests[0]["body"]
        assert post(url, "/v1/messages", {**body, "mcp_servers": [{"url": "https://x"}]})[0] == 400
    assert sent["service_tier"] == "standard_only"
    assert [tool["name"] for tool in sent["tools"]] == ["Read"]
    assert '"1h"' not in json.dumps(sent)
    assert sent["messages"][0]["content"][0] == {**said, "cache_control": {"type": "ephemeral"}}
    assert sent["messages"][0]["content"][1]["text"] == "ü"


def test_what_goes_out_is_one_answer_to_the_text_it_holds() -> None:
    """Nothing that is stored is found by its id, no item brings tools of the vendor, and nothing is thought out many times."""
    own = {"type": "function", "name": "read", "parameters": {"type": "object"}}
    added = {"type": "additional_tools", "role": "developer", "tools": [{"type": "image_generation"}, own]}
    items = [added, {"id": "msg_1"}, {"type": "reasoning", "id": "rs_1", "encrypted_content": "gAAA"}]
    body = {**BODY, "input": items, "reasoning": {"effort": "low", "mode": "pro"}}
    with serving([{"do": "answer"}]) as vendor, gateway(vendor) as (url, _):
        assert post(url, "/responses", body)[0] == 200
        sent = vendor.requests[0]["body"]
    assert sent["reasoning"] == {"effort": "low"}
    assert sent["input"] == [
        {**added, "tools": [own]},
        {},
        {"type": "reasoning", "encrypted_content": "gAAA"},
    ]


@pytest.mark.parametrize("status", [400, 429, 500, 502, 503, 504, 520, 524, 529])
def test_an_error_status_costs_nothing_unless_it_is_a_proxy_that_lost_the_vendor(status: int) -> None:
    with serving([{"do": "status", "status": status}]) as vendor, gateway(vendor) as (url, meter):
        assert post(url, "/responses", BODY)[0] == status
        size = len(json.dumps(vendor.requests[0]["body"], separators=(",", ":")))
        worst = (size + 2_000) * 2_500 + 4_000 * 15_000
        assert meter.cost == (worst if status in (502, 504, 520, 524) else 0)


@pytest.mark.parametrize(
    ("kind", "events"),
    [
        (OPENAI, [{"type": "response.completed", "response": {"usage": {"input_tokens": -1, "output_tokens": -1}}}]),
        (OPENAI, [{"type": "response.in_progress", "usage": {"input_tokens": 1, "output_tokens": 1}}]),
        (
            ANTHROPIC,
            [
                {"type": "message_start", "message": {"role": "assistant"}},
                {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 7}},
            ],
        ),
    ],
)  # fmt: skip
def test_usage_that_cannot_be_all_of_it_is_not_believed(kind: Kind, events: list[dict[str, Any]]) -> None:
    reader = Reader(kind, streamed=True)
    stream = "".join(f"data: {json.dumps(event)}\r\n\r\n" for event in events).encode()
    assert [reader.feed(stream), reader.end()] == [None, None]


def test_usage_is_read_wherever_a_stream_is_cut_into_pieces() -> None:
    told = {"type": "response.completed", "response": {"usage": {"input_tokens": 9, "output_tokens": 4}}}
    for end in ("\n", "\r\n"):
        stream = f"event: x{end}data: {json.dumps(told)}{end}{end}".encode()
        for at in range(len(stream)):
            reader = Reader(OPENAI, streamed=True)
            found = [reader.feed(stream[:at]), reader.feed(stream[at:])]
            assert found.count(Usage(input=9, output=4)) == 1


def test_a_whole_answer_is_counted_before_the_program_has_it() -> None:
    class Slow(Meter):
        def charge(self, *given: Any) -> None:
            time.sleep(0.1)
            super().charge(*given)

    with serving([{"do": "answer"}]) as vendor:
        meter = Slow(OPENAI, Prices({}), budget=nano_of("1.00"), output_tokens=4_000)
        with open_gateway(meter, urlsplit(f"{vendor.url}/v1"), deadline_s=300.0) as url:
            assert post(url, "/responses", BODY)[0] == 200
            assert meter.cost == vendor.bill * NANO


def test_a_machine_without_room_for_a_gateway_fails_the_call_not_the_run() -> None:
    meter = Meter(OPENAI, Prices({}), budget=nano_of("1.00"), output_tokens=4_000)
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.open(os.devnull, os.O_RDONLY)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, limit[1]))
    try:
        with (
            pytest.raises(RoleFailure, match="no gateway can be opened") as caught,
            open_gateway(meter, urlsplit("https://models.example.org"), deadline_s=1.0),
        ):
            pass
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limit)
    assert caught.value.kind == "connection"


def test_a_key_does_not_follow_where_the_vendor_sends_it() -> None:
    with serving([{"do": "answer"}]) as thief:
        away = {"do": "status", "status": 307, "headers": {"location": f"{thief.url}/v1/responses"}}
        with serving([away]) as vendor, gateway(vendor) as (url, meter):
            assert post(url, "/responses", BODY)[0] == 502
            assert meter.cost == 0
        assert thief.requests == []


def test_a_vendor_that_is_not_there_costs_nothing() -> None:
    with serving([{"do": "answer"}]) as vendor:
        pass
    with gateway(vendor) as (url, meter):
        vendor.server_close()
        assert post(url, "/responses", BODY)[0] == 502
        assert meter.cost == 0


def test_at_its_end_nothing_of_a_gateway_is_left() -> None:
    """With a request under way that the vendor leaves open."""
    with serving([{"do": "break", "hang": 120}]) as vendor, ThreadPoolExecutor(1) as pool:
        with gateway(vendor) as (url, meter):
            asked = pool.submit(post, url, "/responses", {**BODY, "stream": True})
            _until(lambda: vendor.bill > 0)
        assert isinstance(asked.exception(), OSError | http.client.HTTPException | ValueError)
        assert meter.cost >= vendor.bill * NANO
        _until(lambda: "_Gateway" not in _running())


def _running() -> str:
    """The stacks of all threads, with what they belong to."""
    frames = [frame for top in sys._current_frames().values() for frame, _ in traceback.walk_stack(top)]
    return " ".join(type(frame.f_locals.get("self")).__name__ for frame in frames)


def _until(holds: Callable[[], bool]) -> None:
    while not holds():
        time.sleep(0.01)


def test_no_order_of_requests_passes_the_budget() -> None:
    """At once and one by one, charged in full, by half, in the worst case or not at all."""
    prices = Prices({})

    def work(meter: Meter, budget: int, dice: random.Random) -> None:
        for _ in range(30):
            body = {"model": dice.choice(models), "input": "é" * dice.randrange(5_000)}
            try:
                admitted = meter.admit(json.dumps(body).encode())
            except Refused:
                continue
            assert meter.cost <= budget
            limit, size = json.loads(admitted.data)["max_output_tokens"], len(admitted.data) + 2_000
            most = Usage(cache_write=size, output=limit)
            assert admitted.price.cost(most) <= admitted.nano
            if dice.random() < 0.2:
                meter.release(admitted)
            else:
                meter.charge(admitted, dice.choice([most, Usage(input=size // 9, output=limit // 9), None]))
            assert meter.cost <= budget

    models = ("gpt-5.4", "claude-fable-5-1", "claude-haiku-5-5", "gpt-6-luna")
    spent = []
    for seed in range(6):
        dice = random.Random(seed)
        budget = dice.randrange(nano_of("0.10"), nano_of("2.00"))
        meter = Meter(OPENAI, prices, budget=budget, output_tokens=16_000)
        with ThreadPoolExecutor(4) as pool:
            for done in [pool.submit(work, meter, budget, random.Random(dice.random())) for _ in range(4)]:
                done.result()
        spent.append(meter.cost / budget)
    assert min(spent) > 0.5
