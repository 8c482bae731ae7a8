"""What the requests of one call cost together: each is paid for in the worst case before it goes out, then by its response."""

from __future__ import annotations

import json
import threading
from dataclasses import astuple, dataclass
from decimal import Decimal

from autoqec.agents.backends.vendors import Json, Refused, Vendor
from autoqec.agents.prices import Price, Prices, Usage, usd_of

_LEAST_TOKENS = 1_000
"""Of output: an answer that is cut off below this is of no use."""
_LEAST_THOUGHT = 1_024
"""Of thinking with a budget: the vendor's own minimum."""
_FREE = Price(input=0.0, output=0.0)
_LONGEST = 200_000
"""Bytes, so tokens at most: no vendor's dearer prices for long prompts begin below."""


@dataclass
class Admitted:
    """A request that may go out: its body, and the worst case that is set aside for it while it is open."""

    data: bytes
    price: Price
    nano: int
    open: bool = True


class Meter:
    """The money of one call, in billionths of a dollar; any number of threads.

    budget: None without a cap; then requests are counted, and none is refused for its cost. output_tokens: for a request that
    names no limit. turns: how many answers the model may give, if the program has no limit of its own.

    seen: whether any request came by. refused: why the last request was refused, if it was. lost: why the vendor could not be
    reached the last time, if it could not. declined: whether the model refused to answer.
    """

    def __init__(
        self,
        vendor: Vendor,
        prices: Prices,
        *,
        budget: int | None,
        output_tokens: int,
        turns: int | None = None,
    ) -> None:
        self.vendor = vendor
        self._prices = prices
        self._rest = budget
        self._output_tokens = output_tokens
        self._turns = turns
        self._answers = 0
        self._changed = threading.Condition()
        self._in_flight = self._spent = 0
        self.usage = Usage()
        self.seen = self.declined = False
        self.refused: Refused | None = None
        self.lost: str | None = None

    @property
    def cost(self) -> int:
        """Of what is in flight, the worst."""
        with self._changed:
            return self._spent + self._in_flight

    def admit(self, content: bytes) -> Admitted:
        """The request as it may go out, with an output limit that can be paid. Waits for others in flight if that may help.

        Raises:
            Refused: it cannot be paid for.
        """
        self.seen = True
        try:
            if self._turns is not None and self._answers >= self._turns:
                raise Refused(f"its {self._turns} turns are used up", "turns")
            admitted = self._counted(content) if self._rest is None else self._admit(content, self._rest)
        except Refused as refusal:
            self.refused = refusal
            raise
        self.refused = None
        return admitted

    def _counted(self, content: bytes) -> Admitted:
        """Without a cap: plain where it can be, and at no price where none is known."""
        try:
            body = self.vendor.at_list_prices(content)
        except Refused:
            return Admitted(content, _FREE, 0)
        price = self._prices.find(body["model"]) or _FREE
        limit = body.get(self.vendor.limit)
        tokens = limit if isinstance(limit, int) and limit > 0 else self._output_tokens
        data = _dumps(self._limited(body, tokens))
        nano = price.most(len(data), tokens)
        with self._changed:
            self._in_flight += nano
        return Admitted(data, price, nano)

    def _admit(self, content: bytes, budget: int) -> Admitted:
        body = self.vendor.at_list_prices(content)
        price = self._prices.find(body["model"])
        if price is None:
            raise Refused(f"the price of model {body['model'][:80]!r} is not known, so no cap can be kept")
        limit = body.get(self.vendor.limit)
        wanted = limit if isinstance(limit, int) and limit > 0 else self._output_tokens
        least = min(wanted, 2 * _LEAST_THOUGHT if _thought(body) else _LEAST_TOKENS)
        size = len(_dumps(self._limited(body, wanted)))
        if size > _LONGEST:
            raise Refused(
                f"a request of {size:,} bytes may be priced as a long one; {_LONGEST:,} are the maximum"
            )
        fixed, each = price.most(size, 0), Decimal(str(price.output)) * 1000
        with self._changed:
            while True:
                rest = budget - self._spent - self._in_flight
                tokens = min(wanted, int((rest - fixed) // each)) if each else wanted
                if tokens >= least and fixed <= rest:
                    break
                if not self._in_flight:
                    need = usd_of(price.most(size, least))
                    raise Refused(
                        f"the next request may cost ${need:.4f}, and ${usd_of(max(0, rest)):.4f} is left"
                    )
                self._changed.wait()
            nano = price.most(size, tokens)
            self._in_flight += nano
        return Admitted(_dumps(self._limited(body, tokens)), price, nano)

    def _limited(self, body: Json, tokens: int) -> Json:
        """With this limit of output; thinking with a budget has half of it where it would have all."""
        limited = {**body, self.vendor.limit: tokens}
        if _thought(body) >= tokens:
            limited["thinking"] = {**body["thinking"], "budget_tokens": tokens // 2}
        return limited

    def charge(self, request: Admitted, usage: Usage | None) -> None:
        """By its usage, or its worst case where that is not known. A request is charged or released once."""
        with self._changed:
            if request.open:
                cost = request.nano if usage is None else request.price.cost(usage)
                self._close(request)
                self._spent += cost
                self.usage += usage or Usage()
                self._answers += usage is not None

    def release(self, request: Admitted) -> None:
        """It was not charged."""
        with self._changed:
            if request.open:
                self._close(request)

    def _close(self, request: Admitted) -> None:
        request.open = False
        self._in_flight -= request.nano
        self._changed.notify_all()


class Reader:
    """Reads the usage out of a response that goes by."""

    def __init__(self, vendor: Vendor, *, streamed: bool) -> None:
        self._vendor = vendor
        self._streamed = streamed
        self._rest = b""
        self._seen: Json = {}
        self.declined = False

    def feed(self, data: bytes) -> Usage | None:
        """The usage, once it is there to be read."""
        self._rest += data
        if not self._streamed:
            return None
        *lines, self._rest = self._rest.split(b"\n")
        found = [usage for line in lines if (usage := self._read(line)) is not None]
        return found[-1] if found else None

    def end(self) -> Usage | None:
        return self._read(self._rest)

    def _read(self, text: bytes) -> Usage | None:
        if b'"usage"' not in text:
            return None
        try:
            event = json.loads(text.strip().removeprefix(b"data:"))
            self.declined = self.declined or self._vendor.declined(event)
            usage = self._vendor.usage(event, self._seen)
        except (ArithmeticError, ValueError, TypeError, LookupError, AttributeError):
            return None
        return usage if usage is not None and min(astuple(usage)) >= 0 else None


def _dumps(body: Json) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()


def _thought(body: Json) -> int:
    """The budget of thinking, 0 without one."""
    thinking = body.get("thinking")
    budget = thinking.get("budget_tokens") if isinstance(thinking, dict) else None
    return budget if isinstance(budget, int) else 0
