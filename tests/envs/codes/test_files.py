from __future__ import annotations

import io
import os
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autoqec.envs.codes.css import ClassicalCode, CSSCode
from autoqec.envs.codes.families import build_code
from autoqec.envs.codes.files import MATRIX_SUFFIXES, read_code, read_matrix
from autoqec.errors import InputError

HAMMING = build_code("hamming?r=3").h
ALIST = """7 3
3 4
1 1 2 1 2 2 3
4 4 4
1 0 0
2 0 0
1 2 0
3 0 0
1 3 0
2 3 0
1 2 3
1 3 5 7
2 3 6 7
4 5 6 7
"""


def write(path: Path, h: np.ndarray = HAMMING) -> Path:
    if path.suffix == ".npz":
        np.savez(path, Hx=h, Hz=h)
    elif path.suffix == ".npy":
        np.save(path, h)
    elif path.suffix == ".mtx":
        scipy.io.mmwrite(path, sp.coo_array(h), field="integer")
    else:
        path.write_text(ALIST)
    return path


@pytest.mark.parametrize("suffix", MATRIX_SUFFIXES)
def test_codes_read_back_as_they_were_written(tmp_path: Path, suffix: str) -> None:
    code = read_code(write(tmp_path / f"hamming{suffix}"))
    assert code.name == "hamming"
    if suffix == ".npz":
        assert isinstance(code, CSSCode)
        assert (code.hx == HAMMING).all()
        assert (code.hz == HAMMING).all()
        assert code.k == 1
    else:
        assert isinstance(code, ClassicalCode)
        assert (code.h == HAMMING).all()
        assert code.h.dtype == np.uint8
        assert code.k == 4


@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize("names", [("Hx", "Hz"), ("hx", "HZ")])
@pytest.mark.parametrize("dtype", [bool, np.int8, np.int64, np.float32, ">u4"])
def test_npz_names_types_and_compression(
    tmp_path: Path, names: tuple[str, str], dtype: object, compressed: bool
) -> None:
    arrays = {names[0]: HAMMING.astype(dtype), names[1]: np.asfortranarray(HAMMING.astype(dtype)), "note": 3}
    (np.savez_compressed if compressed else np.savez)(tmp_path / "code.npz", **arrays)
    code = read_code(tmp_path / "code.npz")
    assert isinstance(code, CSSCode)
    assert (code.hz == HAMMING).all()


def test_npz_with_logical_operators_and_with_one_matrix(tmp_path: Path) -> None:
    ones = np.ones((1, 7), dtype=int)
    np.savez(tmp_path / "css.npz", Hx=HAMMING, Hz=HAMMING, Lz=ones)
    css = read_code(tmp_path / "css.npz")
    assert isinstance(css, CSSCode)
    assert (css.lz == 1).all()
    np.savez(tmp_path / "one.npz", h=HAMMING)
    assert isinstance(read_code(tmp_path / "one.npz"), ClassicalCode)
    assert (read_matrix(tmp_path / "one.npz") == HAMMING).all()
    with pytest.raises(InputError, match="holds a CSS code"):
        read_matrix(tmp_path / "css.npz")


@pytest.mark.parametrize("kind", ["csr", "csc", "coo"])
@pytest.mark.parametrize("make", [sp.csr_matrix, sp.csr_array])
def test_matrices_saved_by_scipy(tmp_path: Path, kind: str, make: type) -> None:
    sp.save_npz(tmp_path / "h.npz", make(HAMMING).asformat(kind))
    code = read_code(tmp_path / "h.npz")
    assert isinstance(code, ClassicalCode)
    assert (code.h == HAMMING).all()


@pytest.mark.parametrize("field", ["integer", "real", "pattern"])
def test_matrix_market_fields_and_dense_matrices(tmp_path: Path, field: str) -> None:
    scipy.io.mmwrite(tmp_path / "h.mtx", sp.coo_array(HAMMING.astype(float)), field=field)
    assert (read_matrix(tmp_path / "h.mtx") == HAMMING).all()
    square = HAMMING.T @ HAMMING % 2
    scipy.io.mmwrite(tmp_path / "symmetric.mtx", sp.coo_array(square), field="integer", symmetry="symmetric")
    assert (read_matrix(tmp_path / "symmetric.mtx") == square).all()
    scipy.io.mmwrite(tmp_path / "symmetric_dense.mtx", square, symmetry="symmetric")
    assert (read_matrix(tmp_path / "symmetric_dense.mtx") == square).all()
    scipy.io.mmwrite(tmp_path / "dense.mtx", HAMMING)
    assert (read_matrix(tmp_path / "dense.mtx") == HAMMING).all()


def test_alist_without_padding_and_with_blank_lines(tmp_path: Path) -> None:
    text = ALIST.replace(" 0", "").replace("4 4 4\n", "4 4 4\n\n")
    (tmp_path / "h.alist").write_text(text)
    assert (read_matrix(tmp_path / "h.alist") == HAMMING).all()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("7 3\n", "7 4\n", r"line 4: 3 numbers, expected 4"),
        ("7 3\n", "0 3\n", "0 columns"),
        ("7 3\n", "999999999 999999999\n", "elements"),
        ("3 4\n", "2 4\n", "line 11: 3 entries, announced 3, at most 2"),
        ("1 1 2 1 2 2 3\n", "1 1 2 1 2 2 2\n", "line 11"),
        ("4 5 6 7\n", "", "13 lines"),
        ("4 5 6 7\n", "4 5 6 8\n", "8 is not in 1 .. 7"),
        ("4 5 6 7\n", "4 5 6 6\n", "an entry twice"),
        ("4 5 6 7\n", "3 5 6 7\n", "row 3 and column 3 disagree"),
        ("4 5 6 7\n", "4 5 6 -7\n", "line 14: expected non-negative"),
        ("4 5 6 7\n", "4 5 6 ٧\n", "line 14: expected non-negative"),
        (ALIST, "", "expected at least 4"),
    ],
)
def test_wrong_alist_files_name_the_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    (tmp_path / "h.alist").write_text(ALIST.replace(old, new), encoding="utf-8")
    with pytest.raises(InputError, match=message):
        read_code(tmp_path / "h.alist")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"Hx": HAMMING}, "Hz is missing"),
        ({"A": HAMMING}, "no check matrix, only A"),
        ({"H": HAMMING, "Hx": HAMMING, "Hz": HAMMING}, "both H and Hx"),
        ({"Hx": HAMMING, "hx": HAMMING, "Hz": HAMMING}, "two arrays are called 'hx'"),
        ({"Hx": HAMMING * 3, "Hz": HAMMING}, r"Hx\[0, 0\] = 3"),
        ({"H": HAMMING[0]}, "1 dimension"),
        ({"H": HAMMING.astype(str)}, "expected numbers"),
        ({"H": HAMMING.astype(complex)}, "expected numbers"),
        ({"H": np.array([[object()]])}, "never unpickled"),
        ({"Hx": np.eye(7)[:2], "Hz": HAMMING}, "anticommute"),
        ({}, "only nothing"),
    ],
)
def test_wrong_npz_files_are_refused(tmp_path: Path, arrays: dict[str, np.ndarray], message: str) -> None:
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(InputError, match=message) as caught:
        read_code(tmp_path / "bad.npz")
    assert "bad.npz" in str(caught.value)


def test_pickles_are_not_run(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.mkdir, (str(tmp_path / "ran"),)

    np.save(tmp_path / "bomb.npy", np.array([Bomb()]), allow_pickle=True)
    with pytest.raises(InputError, match="never unpickled"):
        read_code(tmp_path / "bomb.npy")
    assert not (tmp_path / "ran").exists()


def header(shape: str, descr: str = "'|u1'") -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text) + 1) + text + b"\n"


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ("(100000, 100000)", "more than 1,000,000,000"),
        ("(9999999999999, 9999999999999)", "more than 1,000,000,000"),
        ("(1000, 1000)", "cut short: 1000000 bytes of data announced"),
        ("(-1, -1)", "negative"),
        ("('a', 1)", "cannot be read"),
        ("(", "cannot be read"),
    ],
)
def test_sizes_are_checked_before_memory_is_taken(tmp_path: Path, shape: str, message: str) -> None:
    (tmp_path / "h.npy").write_bytes(header(shape) + b"\x01" * 10)
    with zipfile.ZipFile(tmp_path / "h.npz", "w") as archive:
        archive.writestr("H.npy", header(shape) + b"\x01" * 10)
    for name in ("h.npy", "h.npz"):
        with pytest.raises(InputError, match=message):
            read_code(tmp_path / name)


def test_huge_sparse_matrices_are_refused(tmp_path: Path) -> None:
    sp.save_npz(tmp_path / "h.npz", sp.coo_array(([1], ([0], [0])), shape=(10**6, 10**6)))
    (tmp_path / "h.mtx").write_text(
        "%%MatrixMarket matrix coordinate integer general\n1000000 1000000 1\n1 1 1\n"
    )
    for name in ("h.npz", "h.mtx"):
        with pytest.raises(InputError, match="more than 1,000,000,000"):
            read_code(tmp_path / name)


@pytest.mark.parametrize("field", ["row", "indices", "indptr", "shape", "format"])
def test_sparse_matrices_that_contradict_themselves_are_refused(tmp_path: Path, field: str) -> None:
    stream = io.BytesIO()
    sp.save_npz(stream, sp.coo_array(HAMMING) if field == "row" else sp.csr_array(HAMMING))
    arrays = dict(np.load(io.BytesIO(stream.getvalue())))
    arrays[field] = np.array(b"bsr") if field == "format" else arrays[field] + 50
    if field == "shape":
        arrays[field] = np.array([-1, 7])
    np.savez(tmp_path / "h.npz", **arrays)
    with pytest.raises(InputError, match="cannot be read"):
        read_code(tmp_path / "h.npz")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "%%MatrixMarket matrix coordinate integer general\n2 3 2\n1 1 1\n2 3 5\n",
            r"H\[1, 2\] = 5, expected 0 or 1",
        ),
        (
            "%%MatrixMarket matrix coordinate integer general\n2 3 2\n1 1 1\n1 1 1\n",
            r"entry \(1, 1\) is given twice",
        ),
        (
            "%%MatrixMarket matrix coordinate integer general\n2 3 2\n1 1 1\n2 9 1\n",
            r"line 4: entry \(2, 9\) lies outside 2 x 3",
        ),
        ("%%MatrixMarket matrix coordinate integer general\n2 3 2\n1 1 1\n", "1 entries, announced 2"),
        ("%%MatrixMarket matrix coordinate integer general\n2 3 1\n1 1\n", "2 words"),
        ("%%MatrixMarket matrix coordinate integer general\n2 3 1\n1 x 1\n", "'x' is not a count"),
        ("%%MatrixMarket matrix coordinate integer general\n2 3 1\n1 1 x\n", "'x' is not a number"),
        ("%%MatrixMarket matrix coordinate integer general\n2 3\n", "2 numbers"),
        ("%%MatrixMarket matrix coordinate integer general\n", "no line with the size"),
        ("%%MatrixMarket matrix coordinate complex general\n1 2 1\n1 1 1 1\n", "entries are 'complex'"),
        ("%%MatrixMarket matrix coordinate integer hermitian\n1 2 1\n1 1 1\n", "symmetry 'hermitian'"),
        ("%%MatrixMarket matrix coordinate integer symmetric\n1 2 1\n1 1 1\n", "symmetric matrix of 1 x 2"),
        ("%%MatrixMarket matrix array pattern general\n1 2\n", "format 'array'"),
        ("%%MatrixMarket matrix array integer general\n1 2\n1\nnan\n", r"H\[0, 1\] = nan"),
        ("hello\n", "line 1 is not"),
        ("", "line 1 is not"),
    ],
)
def test_wrong_matrix_market_files_are_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "h.mtx").write_text(text)
    with pytest.raises(InputError, match=message):
        read_code(tmp_path / "h.mtx")


def test_missing_files_folders_and_other_formats(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_code(tmp_path / "none.npz")
    (tmp_path / "folder.npy").mkdir()
    with pytest.raises(InputError, match="is a folder"):
        read_code(tmp_path / "folder.npy")
    with pytest.raises(InputError, match=r"'.csv' is not a known matrix format[\s\S]*\.alist"):
        read_code(tmp_path / "h.csv")


@pytest.mark.parametrize("suffix", MATRIX_SUFFIXES)
def test_truncated_files_are_refused(tmp_path: Path, suffix: str) -> None:
    whole = write(tmp_path / f"whole{suffix}").read_bytes()
    cut = tmp_path / f"cut{suffix}"
    # A text file may lose its last line break, or digits of its last number, without showing it.
    for length in range(0, len(whole) - (0 if suffix in (".npz", ".npy") else 8), max(1, len(whole) // 60)):
        cut.write_bytes(whole[:length])
        with pytest.raises(InputError):
            read_code(cut)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(MATRIX_SUFFIXES),
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=4),
)
def test_corrupt_files_give_an_input_error_or_a_code(
    tmp_path: Path, suffix: str, changes: list[tuple[float, int]]
) -> None:
    content = bytearray(write(tmp_path / f"whole{suffix}").read_bytes())
    for place, byte in changes:
        content[int(place * len(content))] = byte
    path = tmp_path / f"corrupt{suffix}"
    path.write_bytes(content)
    try:
        code = read_code(path)
    except InputError as error:
        assert "corrupt" in str(error)
    else:
        assert code.k >= 1


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(MATRIX_SUFFIXES), st.binary(max_size=200))
def test_arbitrary_bytes_never_crash(tmp_path: Path, suffix: str, content: bytes) -> None:
    path = tmp_path / f"noise{suffix}"
    path.write_bytes(content)
    with pytest.raises(InputError):
        read_code(path)
