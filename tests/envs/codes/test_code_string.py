from __future__ import annotations

import pytest

from autoqec.envs.codes.code_string import Parameter, parse_code_string, read_parameters, with_parameter
from autoqec.errors import InputError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("steane", ("steane", {})),
        (" toric?distance=4 ", ("toric", {"distance": "4"})),
        (
            "surface_code:rotated_memory_z?distance=5&rounds=6",
            ("surface_code:rotated_memory_z", {"distance": "5", "rounds": "6"}),
        ),
        ("bb?a=x3+y+y2&b=1%2Bx", ("bb", {"a": "x3+y+y2", "b": "1+x"})),
        (
            "hgp?h1=repetition?distance=3&h2=ring?distance=4",
            ("hgp", {"h1": "repetition?distance=3", "h2": "ring?distance=4"}),
        ),
        ("hgp?h1=(a?b=1&c=(d?e=2&f=%26))&h2=x", ("hgp", {"h1": "a?b=1&c=(d?e=2&f=%26)", "h2": "x"})),
        ("css?hx=some%26thing.mtx&hz=(a)(b)", ("css", {"hx": "some&thing.mtx", "hz": "(a)(b)"})),
    ],
)
def test_references_are_split(text: str, expected: tuple[str, dict[str, str]]) -> None:
    assert parse_code_string(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a name"),
        ("?distance=3", "not a name"),
        ("to ric", "not a name"),
        ("toric?", "not key=value"),
        ("toric?distance", "'distance' is not key=value"),
        ("toric?distance=", "no value"),
        ("toric?distance=3&distance=3", "'distance' is given twice"),
        ("toric?distance=3&", "not key=value"),
        ("hgp?h1=(a", "unbalanced"),
        ("hgp?h1=a)", "unbalanced"),
    ],
)
def test_malformed_references_are_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_code_string(text, where="code.source")


KNOWN = {
    "distance": Parameter(low=2, high=50),
    "rounds": Parameter(low=1, default=3),
    "a": Parameter(default="x"),
}


def test_parameters_are_typed_and_filled_in() -> None:
    assert read_parameters("code", {"distance": "5"}, KNOWN) == {"distance": 5, "rounds": 3, "a": "x"}
    assert read_parameters("code", {"distance": "+5", "a": "7"}, KNOWN)["a"] == "7"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, r"needs 'distance'[\s\S]*code\?distance=\.\.\."),
        ({"distence": "3"}, "no parameter 'distence'; did you mean 'distance'"),
        ({"distance": "3.0"}, "not an integer[\\s\\S]*from 2 to 50"),
        ({"distance": "1_0"}, "not an integer"),
        ({"distance": "٣"}, "not an integer"),
        ({"distance": "1"}, "out of range"),
        ({"distance": "51"}, "out of range"),
        ({"distance": "9" * 5000}, "not an integer"),
        ({"distance": "3", "rounds": "0"}, "of at least 1"),
    ],
)
def test_wrong_parameters_are_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_parameters("code", given, KNOWN)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("toric?distance=4&rounds=3", "toric?distance=4&rounds=6"),
        ("toric?rounds=%33", "toric?rounds=6"),
        ("product?h1=(ring?rounds=3&distance=5)&rounds=1", "product?h1=(ring?rounds=3&distance=5)&rounds=2"),
        ("product?h1=(ring?rounds=3)", None),
        ("toric", None),
        ("folder/file.stim", None),
    ],
)
def test_one_parameter_can_be_changed(text: str, expected: str | None) -> None:
    assert with_parameter(text, "rounds", lambda value: str(2 * int(value))) == expected
