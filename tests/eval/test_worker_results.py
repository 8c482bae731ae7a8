"""What worker processes send back is parsed as the type that was asked for, and nothing in it can run."""

from __future__ import annotations

import math
import pickle
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pytest
from typing_extensions import TypeAliasType

from autoqec.envs.problem import U8
from autoqec.errors import AutoQECError, InputError
from autoqec.eval.tasks import Candidate, Sample, Scored
from autoqec.eval.worker_results import decode, encode, encode_error, result_type
from autoqec.stats.table import PairedTable


class Mixed(NamedTuple):
    table: PairedTable | None
    bits: U8
    rates: tuple[float, float]
    words: tuple[str, ...]
    numbers: list[float]


MIXED = Mixed(
    PairedTable(9, 3, 1, 2), np.arange(6, dtype=np.uint8).reshape(2, 3), (0.5, -math.inf), ("a", "b"), [1.5]
)


def test_a_result_comes_back_as_it_was() -> None:
    back = decode(encode(MIXED), Mixed)
    assert back._replace(bits=None) == MIXED._replace(bits=None)
    np.testing.assert_array_equal(back.bits, MIXED.bits)
    assert decode(encode(MIXED._replace(table=None)), Mixed).table is None
    assert math.isnan(decode(encode(math.nan), float))
    assert result_type(Candidate) is Scored
    assert result_type(Sample)._fields == ("detectors", "observables")


def test_a_type_may_have_a_name() -> None:
    """As NDArray is one in numpy 2.5."""
    scalar = TypeVar("scalar", bound=np.generic)
    named = TypeAliasType("named", np.ndarray[Any, np.dtype[scalar]], type_params=(scalar,))
    np.testing.assert_array_equal(decode(encode(MIXED.bits), named[np.uint8]), MIXED.bits)
    with pytest.raises(AutoQECError, match="an array of uint8 where float64 is due"):
        decode(encode(MIXED.bits), named[np.float64])


@pytest.mark.parametrize(
    "payload",
    [
        pickle.dumps((True, 1.0)),
        b"",
        encode("text"),
        encode([1.0, 2.0]),
        encode(True),
        encode(MIXED),
        encode(MIXED)[:-1],
    ],
)
def test_anything_else_is_refused(payload: bytes) -> None:
    with pytest.raises(AutoQECError, match="no valid result"):
        decode(payload, float)


@pytest.mark.parametrize(
    "wrong",
    [
        MIXED._replace(bits=np.zeros(3, np.float32)),
        MIXED._replace(words=(1,)),
        MIXED._replace(rates=(0.5,)),
        MIXED._replace(table=(9, 3, 1)),
        MIXED._replace(numbers="12"),
        MIXED[:4],
    ],
)
def test_every_part_is_of_its_type(wrong: object) -> None:
    with pytest.raises(AutoQECError, match="no valid result"):
        decode(encode(wrong), Mixed)


def test_what_is_no_plain_data_is_not_sent() -> None:
    @dataclass
    class Holder:
        value: object

    with pytest.raises(TypeError, match="not plain data"):
        encode(Holder(object()))


def test_an_error_is_raised_on_the_other_side() -> None:
    with pytest.raises(InputError) as caught:
        decode(encode_error(InputError("is bad", where="here", hint="mend it")), float)
    assert (caught.value.what, caught.value.where, caught.value.hint) == ("is bad", "here", "mend it")
