"""Packing on a device is that of numpy on the host."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from autoqec.envs.packing import pack, unpack
from autoqec.runner.bits import Fetched, pack_rows, packed, sent, unpack_rows, unpacked


@pytest.mark.parametrize("n", [1, 7, 8, 9, 120])
def test_rows_are_packed_as_on_the_host(n: int) -> None:
    bits = np.random.default_rng(n).integers(0, 2, (33, n), dtype=np.uint8)
    rows = pack(bits)
    for given in (torch.from_numpy(bits), torch.from_numpy(bits).float(), torch.from_numpy(bits).bool()):
        assert np.array_equal(pack_rows(given).numpy(), rows)
        assert np.array_equal(packed(given), rows)
    for found in (unpack_rows(torch.from_numpy(rows), n), unpacked(torch.from_numpy(rows), n)):
        assert found.dtype == torch.uint8
        assert np.array_equal(found.numpy(), unpack(rows, n))


def test_no_shots() -> None:
    none = torch.zeros(0, 12)
    assert pack_rows(none).shape == (0, 2)
    assert unpack_rows(pack_rows(none), 12).shape == (0, 12)


def test_there_and_back() -> None:
    given = np.arange(12, dtype=np.float32).reshape(3, 4)
    found = Fetched(sent(given, torch.device("cpu")).T).wait()
    assert found.flags.c_contiguous
    assert np.array_equal(found, given.T)
