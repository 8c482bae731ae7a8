"""Hand-written files: what is read, what is refused, and that nothing but InputError comes out."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field

from autoqec.errors import InputError
from autoqec.io import strict_yaml
from autoqec.io.strict_yaml import dump_yaml, parse_json, parse_yaml, read_yaml
from autoqec.io.validate import load_model, validate_model


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")
    kind: str = "plain"
    pair: tuple[int, int] = (1, 2)


class Outer(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)
    name: str
    rates: list[float] = Field(min_length=1)
    count: int = 3
    on: bool = False
    inner: Inner = Field(default_factory=Inner)
    inners: list[Inner] = []
    fork: str | list[str] | None = None
    extra: dict[str, Any] = {}


VALID = "name: a\nrates: [1e-3, 5]\ncount: 4\ninner: {kind: x, pair: [3, 4]}\n"


def write(tmp_path: Path, text: str | bytes, name: str = "file.yaml") -> Path:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def error_of(path: str | Path) -> str:
    with pytest.raises(InputError) as caught:
        load_model(path, Outer)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 1e-3),
        ("1E3", 1000.0),
        (".5", 0.5),
        ("5.", 5.0),
        ("+1.5", 1.5),
        ("010", 10),
        ("0o17", 15),
        ("0x1F", 31),
        ("-7", -7),
        ("true", True),
        ("False", False),
        ("yes", "yes"),
        ("off", "off"),
        ("on", "on"),
        ("~", None),
        ("null", None),
        ("2026-04-20", "2026-04-20"),
        ("2026-04-20 10:10:10", "2026-04-20 10:10:10"),
        ("1:30", "1:30"),
        ("1_000", "1_000"),
        ("0b11", "0b11"),
        ("'1'", "1"),
        ('"true"', "true"),
        ("|\n  1\n", "1\n"),
        ("=", "="),
        ("<<", "<<"),
        ("e5", "e5"),
        ("1e", "1e"),
        (".", "."),
    ],
)
def test_plain_scalars_follow_yaml_1_2(text: str, value: object) -> None:
    found = parse_yaml(f"a: {text}", where="x")
    assert found == {"a": value}
    assert type(found["a"]) is type(value)  # type: ignore[index]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3\n", "x:3:1: duplicate key 'a': it was given in line 1 already"),
        ("a: {b: 1, b: 2}", "x:1:11: duplicate key 'b'"),
        ("a: 1\n'a': 2", "x:2:1: duplicate key"),
        ("a: &n 1\nb: *n", "x:1:4: anchors and aliases are not read ('n')"),
        ("b: *n", "x:1:4: anchors and aliases"),
        ("a: !!python/object/apply:os.system [ls]", "x:1:4: tags are not read"),
        ("a: !!str 1", "x:1:4: tags are not read"),
        ("a: ! 1", "x:1:4: tags are not read"),
        ("a:\n\t- b", "x:2:1: not valid YAML: found character '\\t'"),
        ("a: [1, 2", "x:1:9: not valid YAML: expected ',' or ']'"),
        ("a: b: c", "x:1:5: not valid YAML: mapping values are not allowed here"),
        ("a: 1\n---\nb: 2", "x:2:1: a second document starts here"),
        ("1: a", "x:1:1: key 1 is not a string"),
        ("true: a", "x:1:1: key True is not a string"),
        ("? [a]\n: b", "x:1:3: key ['a'] is not a string"),
        ("a: .inf", "x:1:4: .inf is not a finite number"),
        ("a: .nan", "x:1:4: .nan is not a finite number"),
        ("a: 1e999", "x:1:4: inf is not a finite number"),
        ("a: 9223372036854775808", "x:1:4: an integer does not fit into 64 bits"),
        ("a: " + "9" * 10_000, "x:1:4: an integer does not fit into 64 bits"),
        ("a: 0x" + "f" * 10_000, "x:1:4: an integer does not fit into 64 bits"),
        ('a: "\\ud800"', "x:1:4: '\\ud800' holds half a character"),
        ('a: "\\U00110000"', "x: not valid YAML: an escape"),
        ("a: \x07", "x: character"),
        ("[" * 100_000, "x:1:65: nested deeper than 64 levels"),
        ("- " * 100_000, "nested deeper than 64 levels"),
        ("? " * 100_000, "nested deeper than 64 levels"),
        ("[" + "1," * 60_000 + "]", "more than 50000 values"),
        ("", "x: is empty"),
        ("# only a comment\n", "x: is empty"),
        ("---\n...\n", "x: is empty"),
    ],
)
def test_yaml_refused(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_yaml(text, where="x")
    assert message in str(caught.value).splitlines()[0]


def test_alias_bomb_is_refused_before_it_expands() -> None:
    bomb = 'a: &a ["x","x"]\n' + "".join(
        f"{name}: &{name} [{','.join(['*' + last] * 9)}]\n"
        for last, name in zip("abcdefgh", "bcdefghi", strict=True)
    )
    with pytest.raises(InputError, match="x:1:4: anchors and aliases"):
        parse_yaml(bomb, where="x")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1, "a": 2}', "x: duplicate key 'a'"),
        ('{"b": {"a": 1, "a": 2}}', "x: duplicate key 'a'"),
        ('{"a": NaN}', "x: NaN is not a finite number"),
        ('{"a": -Infinity}', "x: -Infinity is not a finite number"),
        ('{"a": [1e999]}', "x: a[0]: inf is not a finite number"),
        ('{"a": %s}' % ("9" * 5000), "x: a: an integer does not fit"),
        ('{"a": "\\ud800"}', "x: a: '\\ud800' holds half a character"),
        ('{\n"a": 1,\n}', "x:3:1: not valid JSON"),
        ("{'a': 1}", "x:1:2: not valid JSON"),
        ("[" * 100 + "]" * 100, "x: nested deeper than 64 levels"),
        ("[" * 100_000, "x: nested deeper than 64 levels"),
        ("[" + "1," * 60_000 + "1]", "more than 50000 values"),
        ("  \n", "x: is empty"),
    ],
)
def test_json_refused(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_json(text, where="x")
    assert message in str(caught.value).splitlines()[0]


def test_valid_file_loads_as_yaml_and_as_json(tmp_path: Path) -> None:
    expected = Outer(name="a", rates=[0.001, 5.0], count=4, inner=Inner(kind="x", pair=(3, 4)))
    assert load_model(write(tmp_path, VALID), Outer) == expected
    assert load_model(write(tmp_path, b"\xef\xbb\xbf" + VALID.encode()), Outer) == expected
    assert load_model(str(write(tmp_path, expected.model_dump_json(), "f.json")), Outer) == expected
    assert load_model(write(tmp_path, expected.model_dump_json(), "F.JSON"), Outer) == expected


def test_file_that_cannot_be_read(tmp_path: Path) -> None:
    assert "no such file" in error_of(tmp_path / "absent.yaml")
    assert "is a folder" in error_of(tmp_path)
    assert "byte 6 is not UTF-8" in error_of(write(tmp_path, b"name: \xff"))
    assert "not UTF-8" in error_of(write(tmp_path, VALID.encode("utf-16")))
    assert "is larger than 1048576 bytes" in error_of(write(tmp_path, b" " * (strict_yaml.MAX_BYTES + 1)))
    assert "is empty" in error_of(write(tmp_path, ""))
    assert "is empty" in error_of(write(tmp_path, "", "f.json"))
    assert "is not a path" in error_of("a\0b")
    assert "cannot be opened: File name too long" in error_of("x" * 5000)
    for text in ("- a\n", "just text\n", "null\n", "3\n"):
        message = error_of(write(tmp_path, text))
        assert "expected a mapping" in message
        assert "required keys: name, rates" in message


def test_fifo_is_refused_and_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    assert "not a regular file" in error_of(tmp_path / "pipe.yaml")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_unreadable_file(tmp_path: Path) -> None:
    path = write(tmp_path, VALID)
    path.chmod(0)
    assert "cannot be read: Permission denied" in error_of(path)


@pytest.mark.parametrize(
    ("old", "new", "place", "message", "hint"),
    [
        ("count: 4", "cuont: 4", "cuont", "unknown key", "did you mean 'count'?"),
        ("count: 4", "zzz: 4", "zzz", "unknown key", "known keys: name, rates, count"),
        ("kind: x", "kin: x", "inner.kin", "unknown key", "did you mean 'kind'?"),
        ("name: a\n", "", "name", "required key is missing", None),
        ("1e-3, 5", '1e-3, "5"', "rates[1]", "expected a number, got '5'", "remove the quotes"),
        ("1e-3, 5", "1e-3, true", "rates[1]", "expected a number, got true", None),
        ("[1e-3, 5]", "5", "rates", "expected a list, got 5", None),
        ("[1e-3, 5]", "[]", "rates", "", None),
        ("name: a", "name: 7", "name", "expected a string, got 7", "put it in quotes"),
        ("name: a", "name: null", "name", "expected a string, got null", None),
        ("count: 4", "count: 1e6", "count", "expected an integer, got 1000000.0", "write 1000000"),
        ("count: 4", "count: 1_000", "count", "expected an integer, got '1_000'", "write 1000"),
        ("count: 4", "count: true", "count", "expected an integer, got true", None),
        ("count: 4", "on: yes", "on", "expected true or false, got 'yes'", "write true"),
        ("count: 4", "on: 1", "on", "expected true or false, got 1", None),
        ("[3, 4]", "[3]", "inner.pair", "expected at least 2 items, got the list [3]", None),
        ("[3, 4]", "[3, 4, 5]", "inner.pair", "expected at most 2 items, got the list [3, 4, 5]", None),
        ("[3, 4]", "[3, x]", "inner.pair[1]", "expected an integer, got 'x'", None),
        (
            "count: 4",
            "inners: [{}, {kind: 1}]",
            "inners[1].kind",
            "expected a string, got 1",
            "put it in quotes",
        ),
        ("count: 4", "inners: [{}, 7]", "inners[1]", "expected a mapping, got 7", None),
        ("count: 4", "inners: [{knd: a}]", "inners[0].knd", "unknown key", "did you mean 'kind'?"),
        ("count: 4", "fork: 3", "fork", "expected a string or a list, got 3", "put it in quotes"),
        ("count: 4", "fork: [a, 3]", "fork[1]", "expected a string, got 3", "put it in quotes"),
        ("count: 4", f"count: {'z' * 500}", "count", f"expected an integer, got '{'z' * 57}'...", None),
    ],
)
def test_one_problem_is_one_clear_error(
    tmp_path: Path, old: str, new: str, place: str, message: str, hint: str | None
) -> None:
    assert old in VALID
    path = write(tmp_path, VALID.replace(old, new))
    with pytest.raises(InputError) as caught:
        load_model(path, Outer)
    assert caught.value.where == f"{path}: {place}"
    assert message in caught.value.what
    assert "\n" not in caught.value.what
    assert (caught.value.hint or "").startswith(hint or "")
    assert (caught.value.hint is None) == (hint is None)


def test_all_problems_are_listed_and_the_cause_comes_first(tmp_path: Path) -> None:
    path = write(tmp_path, "nam: a\nrates: [x, y]\ncount: 1.5\n")
    lines = error_of(path).splitlines()
    assert lines[0] == f"{path}: nam: unknown key (did you mean 'name'?)"
    assert [line.split(": ")[0].strip() for line in lines[1:]] == ["name", "rates[0]", "rates[1]", "count"]


def test_many_problems_are_cut(tmp_path: Path) -> None:
    message = error_of(write(tmp_path, f"name: a\nrates: [{'x,' * 5000}]\n"))
    assert len(message.splitlines()) == 21
    assert message.endswith("and 4980 more")


def test_message_can_be_printed_whatever_the_file_holds(tmp_path: Path) -> None:
    path = write(tmp_path, '"\\e[31m\\u2028": 1\nname: "\\0\\e[0m"\nrates: "\\e"\n')
    assert all(char.isprintable() or char == "\n" for char in error_of(path))
    odd = write(tmp_path, "", "od\x1bd.yaml")
    assert error_of(odd).isprintable()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"name": "a", "rates": [math.nan]}, "x: rates[0]: nan is not a finite number"),
        ({"name": "a", "rates": [1.0], "count": 10**5000}, "x: count: an integer does not fit"),
        ({"name": b"a", "rates": [1.0]}, "x: name: a bytes is not a plain value"),
        ({"name": "a", "rates": [1.0], 3: 4}, "x: key 3 is not a string"),
        ({"name": "a", "rates": {1.0}}, "x: rates: a set is not a plain value"),
        ([1], "x: expected a mapping, got the list [1]"),
        (None, "x: expected a mapping, got null"),
    ],
)
def test_data_in_memory(data: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        validate_model(data, Outer, where="x")
    assert message in str(caught.value)


def test_cyclic_data_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(InputError, match="nested deeper"):
        validate_model({"name": loop}, Outer, where="x")
    with pytest.raises(InputError, match="nested deeper"):
        dump_yaml({"name": loop})


def test_dump_leaves_defaults_out_and_keeps_the_required() -> None:
    outer = Outer(
        name="1e-3", rates=[0.001, 5.0], inner=Inner(pair=(3, 4)), extra={"code": "def f():\n    return 1\n"}
    )
    assert dump_yaml(outer) == (
        "name: '1e-3'\n"
        "rates: [0.001, 5.0]\n"
        "inner:\n"
        "  pair: [3, 4]\n"
        "extra:\n"
        "  code: |\n"
        "    def f():\n"
        "        return 1\n"
    )
    with pytest.raises(InputError, match="not a plain value"):
        dump_yaml({"a": object()})


FRAGMENTS = (
    st.sampled_from("{}[]:,-?&*!|>%@`'\"\\#~=<ab1 \n\t\0\x85\u2028\ufeff")
    | st.sampled_from(["- ", ": ", "? ", "&a ", "*a ", "!!str ", "|2-\n", "---\n", "...\n", "%TAG ! x\n"])
    | st.sampled_from(["\\U00110000", "\\x", "\\ud800", "%YAML 1.1\n", "%YAML 99999999999999999999.1\n"])
    | st.sampled_from(["1e-3", "null", ".inf", "%ff", "name: ", "rates: ", "inner: ", "kind", "[3, 4]"])
)
TEXTS = st.text() | st.lists(FRAGMENTS | st.text(max_size=3), max_size=40).map("".join)
BYTES = VALID.encode()
EDITS = st.lists(
    st.tuples(
        st.integers(0, len(BYTES)),
        st.integers(0, 8),
        st.binary(max_size=4) | FRAGMENTS.map(str.encode),
    ),
    max_size=4,
)
few = settings(max_examples=300, deadline=None)


@few
@given(TEXTS)
def test_any_text_reads_or_is_an_input_error(text: str) -> None:
    for parse in (parse_yaml, parse_json):
        try:
            value = parse(text, where="x")
        except InputError as error:
            str(error).encode()
        else:
            if isinstance(value, dict):
                assert parse_yaml(dump_yaml(value), where="dump") == value


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


@few
@given(data=st.binary(), suffix=st.sampled_from(["yaml", "json"]))
def test_any_bytes_load_or_are_an_input_error(scratch: Path, data: bytes, suffix: str) -> None:
    path = write(scratch, data, f"bytes.{suffix}")
    with pytest.raises(InputError):
        load_model(path, Outer)


@few
@given(EDITS)
def test_any_damage_to_a_file_loads_or_is_an_input_error(
    scratch: Path, edits: list[tuple[int, int, bytes]]
) -> None:
    data = BYTES
    for start, length, new in edits:
        data = data[:start] + new + data[start + length :]
    path = write(scratch, data, "damaged.yaml")
    try:
        outcome: object = load_model(path, Outer)
    except InputError as error:
        outcome = error
    assert isinstance(outcome, Outer) or str(outcome).startswith(str(path))


WORDS = (
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
    | st.sampled_from(
        ["", "1e-3", "0o7", "0x1F", ".inf", "-.INF", ".NaN", "yes", "True", "~", "1_0", ".5", "="]
    )
    | st.sampled_from(
        ["2020-01-01", "1:30", "<<", "#", "'", '"', "|", "%", "-", "- a", "a: b", "a #b", "\r\n"]
    )
    | st.sampled_from(["a\n", "\na", " a\n", "a\n\n", "a \nb", "a\tb\n", "\x85", "a\n b\n", "---\na"])
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | WORDS
)
TREES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=12,
)


@few
@given(st.dictionaries(WORDS, TREES, max_size=4))
def test_dump_reads_back_equal_to_the_last_bit(value: dict[str, Any]) -> None:
    assert repr(parse_yaml(dump_yaml(value), where="dump")) == repr(value)


ANYTHING = st.recursive(
    SCALARS | st.floats() | st.integers() | st.text() | st.binary(max_size=3) | st.complex_numbers(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(
            st.text() | st.integers() | st.sampled_from(list(Outer.model_fields)), inner, max_size=4
        )
    ),
    max_leaves=10,
)


@few
@given(ANYTHING)
def test_any_object_validates_or_is_an_input_error(value: object) -> None:
    try:
        validate_model(value, Outer, where="x")
    except InputError as error:
        str(error).encode()


def test_read_yaml_gives_plain_values(tmp_path: Path) -> None:
    assert read_yaml(write(tmp_path, "- 1\n- {a: b}\n")) == [1, {"a": "b"}]
