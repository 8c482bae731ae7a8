"""Caps hold to the cent, whoever calls at the same time and whoever is killed in between."""

from __future__ import annotations

import json
import multiprocessing
from decimal import Decimal
from pathlib import Path

import pytest
from warm_processes import WARM

from autoqec.agents.accounting import Caps, Ledger
from autoqec.agents.failures import RoleFailure
from autoqec.agents.prices import NANO, Prices, Usage, nano_of, usd_of
from autoqec.errors import InputError
from autoqec.layout import RunDir

WHO = {"backend": "anthropic", "model": "claude-sonnet-5-5"}


def ledger(folder: Path, **caps: object) -> Ledger:
    return Ledger(RunDir(folder).llm_ledger, Caps(**caps))  # type: ignore[arg-type]


def test_a_reservation_counts_until_what_it_cost_is_known(tmp_path: Path) -> None:
    book = ledger(tmp_path, total=Decimal("1.00"))
    first = book.reserve(nano_of("0.60"), role="coder", round=1, **WHO)
    with pytest.raises(RoleFailure, match=r"may cost \$0.60, and \$0.40 of the budget is left") as caught:
        book.reserve(nano_of("0.60"), role="coder", round=1, **WHO)
    assert caught.value.kind == "budget"
    book.settle(first, nano_of("0.15"), source="vendor", usage=Usage(input=9), outcome="ok")
    book.reserve(nano_of("0.60"), role="coder", round=1, **WHO)
    assert book.totals().spent_usd == 0.15
    assert book.totals().in_flight_usd == 0.60


def test_the_last_cent_can_be_spent_and_not_one_more(tmp_path: Path) -> None:
    book = ledger(tmp_path, total=Decimal("0.30"))
    for _ in range(3):
        call = book.reserve(nano_of("0.10"), role="ideator", round=1, **WHO)
        book.settle(call, nano_of("0.10"), source="prices", usage=None, outcome="ok")
    assert book.left() == 0
    with pytest.raises(RoleFailure):
        book.reserve(1, role="ideator", round=1, **WHO)
    assert book.reserve(0, role="ideator", round=1, **WHO).nano == 0


def test_a_call_that_can_do_with_less_gets_what_is_left(tmp_path: Path) -> None:
    book = ledger(tmp_path, total=Decimal("0.40"))
    assert book.reserve(nano_of(1), least=nano_of("0.05"), role="coder", round=1, **WHO).nano == nano_of(
        "0.40"
    )
    with pytest.raises(RoleFailure):
        book.reserve(nano_of(1), least=nano_of("0.05"), role="coder", round=1, **WHO)


def test_what_a_killed_process_had_reserved_still_counts_after_a_restart(tmp_path: Path) -> None:
    ledger(tmp_path, total=Decimal(1)).reserve(nano_of("0.75"), role="coder", round=1, **WHO)
    again = ledger(tmp_path, total=Decimal(1))
    assert again.summary()["left_usd"] == 0.25
    assert again.summary()["in_flight_usd"] == 0.75


def test_a_call_is_settled_once(tmp_path: Path) -> None:
    book = ledger(tmp_path)
    call = book.reserve(nano_of(1), role="coder", round=1, **WHO)
    book.settle(call, nano_of("0.25"), source="vendor", usage=None, outcome="ok")
    book.settle(call, nano_of("9.00"), source="vendor", usage=None, outcome="ok")
    assert book.totals().spent_usd == 0.25


@pytest.mark.parametrize(
    ("budget", "call"), [(None, "1.00"), ("100", "1.00"), ("1.00", "0.25"), ("0.40", "0.10")]
)
def test_calls_of_a_small_budget_are_small(budget: str | None, call: str) -> None:
    caps = Caps.for_budget(None if budget is None else Decimal(budget))
    assert caps.call == Decimal(call)
    assert caps.is_set == (budget is not None)


def test_a_call_that_cost_more_than_was_reserved_counts_in_full(tmp_path: Path) -> None:
    book = ledger(tmp_path, total=Decimal("0.50"))
    call = book.reserve(nano_of("0.10"), role="coder", round=1, **WHO)
    book.settle(call, nano_of("0.45"), source="prices", usage=None, outcome="ok")
    with pytest.raises(RoleFailure):
        book.reserve(nano_of("0.10"), role="coder", round=1, **WHO)


def test_totals_by_round_and_role_add_up(tmp_path: Path) -> None:
    book = ledger(tmp_path)
    for number, role in enumerate(("ideator", "coder", "coder"), 1):
        call = book.reserve(0, role=role, round=number, **WHO)
        book.settle(call, number, source="prices", usage=Usage(input=10 * number, output=1), outcome="ok")
    assert book.totals().spent == 6
    assert book.totals(role="coder").spent == 5
    assert book.totals(round=3).usage == Usage(input=30, output=1)
    assert book.totals(role="analyst").calls == 0


def _spend(path: str, done: multiprocessing.Queue[int]) -> None:
    book = Ledger(Path(path), Caps(total=Decimal("1.00")))
    granted = 0
    for _ in range(20):
        try:
            call = book.reserve(nano_of("0.07"), role="coder", round=1, **WHO)
        except RoleFailure:
            break
        book.settle(call, nano_of("0.03"), source="vendor", usage=None, outcome="ok")
        granted += 1
    done.put(granted)


def test_processes_that_spend_at_once_do_not_pass_the_cap_together(tmp_path: Path) -> None:
    done: multiprocessing.Queue[int] = WARM.Queue()
    path = str(RunDir(tmp_path).llm_ledger)
    workers = [WARM.Process(target=_spend, args=(path, done)) for _ in range(4)]
    for worker in workers:
        worker.start()
    calls = sum(done.get() for _ in workers)
    for worker in workers:
        worker.join()
    book = Ledger(Path(path), Caps(total=Decimal("1.00")))
    assert book.totals().spent == calls * nano_of("0.03")
    assert book.totals().spent <= nano_of("1.00")
    # 0.93 is as far as one can get: the next reservation of 0.07 would pass the cap
    assert book.totals().spent > nano_of("1.00") - nano_of("0.07") - 4 * nano_of("0.07")
    assert book.left() == nano_of("1.00") - book.totals().spent
    running = 0
    open_calls: dict[str, int] = {}
    for line in Path(path).read_text().splitlines():
        row = json.loads(line)
        if row["event"] == "reserve":
            open_calls[row["call"]] = row["nano_usd"]
        else:
            del open_calls[row["call"]]
            running += row["nano_usd"]
        assert running + sum(open_calls.values()) <= nano_of("1.00")


def test_prices_are_exact_to_the_billionth() -> None:
    price = Prices({}).need("claude-sonnet-5-5")
    usage = Usage(input=1_234_567, cache_read=1_000_003, cache_write=7, output=89)
    expected = (1_234_567 * 2 + Decimal("0.1") * 1_000_003 + Decimal("2.5") * 7 + 89 * 10) / 1_000_000
    assert usd_of(price.cost(usage)) - expected < Decimal(1) / NANO
    assert usd_of(price.cost(usage)) >= expected


@pytest.mark.parametrize("text", ["short", "x" * 40_000, "\u00e9\u4e2d" * 3_000])
def test_no_request_can_cost_more_than_what_is_reserved_for_it(text: str) -> None:
    price = Prices({}).need("gpt-6.1-terra")
    # every byte a token of its own, all of it written to a cache, and the whole answer used
    worst = Usage(cache_write=len(text.encode()) + 1_500, output=8_000)
    assert price.most(len(text.encode()), 8_000) >= price.cost(worst)


@pytest.mark.parametrize(
    ("model", "usd"),
    [
        ("claude-opus-5-5", 4.0),
        ("claude-opus-5-20260724", 5.0),
        ("claude-opus-4-7", 5.0),
        ("claude-opus-4-1", 15.0),
        ("gpt-5.4", 2.5),
        ("gpt-5.4-mini-2026-03-01", 0.75),
        ("gpt-5.4-2026-03-01", 2.5),
    ],
)
def test_a_model_is_found_by_the_closest_name(model: str, usd: float) -> None:
    assert Prices({}).need(model).input == usd


@pytest.mark.parametrize("model", ["gpt-5.4-pro", "my-own-model", None])
def test_a_model_without_a_price_is_said_to_have_none(model: str | None) -> None:
    assert Prices({}).find(model) is None
    with pytest.raises(InputError, match="AUTOQEC_PRICES"):
        Prices({}).need(model)


def test_the_users_prices_come_first_and_the_date_is_theirs(tmp_path: Path) -> None:
    own = tmp_path / "prices.yaml"
    own.write_text(
        "as_of: 2026-12-01\nmodels:\n  local-*: {input: 0, output: 0}\n  gpt-5.4: {input: 1.0, output: 2.0}\n"
    )
    prices = Prices({"AUTOQEC_PRICES": str(own)})
    assert prices.need("local-llama").cost(Usage(input=10**9, output=10**9)) == 0
    assert prices.need("gpt-5.4").output == 2.0
    assert prices.need("gpt-5.4-mini").output == 4.5
    assert str(prices.as_of) == "2026-12-01"


def test_a_broken_price_file_is_an_error_with_its_place(tmp_path: Path) -> None:
    own = tmp_path / "prices.yaml"
    own.write_text("as_of: 2026-12-01\nmodels:\n  a: {input: -1, output: 2}\n")
    with pytest.raises(InputError, match=r"models.a.input"):
        Prices({"AUTOQEC_PRICES": str(own)})
