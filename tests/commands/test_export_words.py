"""What `autoqec export --onnx` says of the files that it wrote."""

from pathlib import Path

from autoqec.commands.export import _written
from autoqec.decoders.export import OnnxExport
from autoqec.decoders.gates import Gates
from autoqec.decoders.onnx_check import Compared


def told(differing: int, *alone: int) -> list[str]:
    files = tuple(Path(f"m.stage{stage}.onnx") for stage in (1, 2))
    found = Compared(differing, alone, (4096, 300))
    gates = Gates((2.5,), (None, None))
    return list(_written(OnnxExport(Path("m.onnx"), files, "edge_log_odds", 0.01, 4096, found, gates)))


def test_ties_are_named_where_they_are() -> None:
    whole, first, second = told(0, 0, 3)
    assert "0 of 4096 predictions differ from the pipeline's." in whole
    assert (
        first == "Stage 1: 4096 shots reach it; asked about all 4096 it differs in 0. Below 2.5 they go on."
    )
    assert second == (
        "Stage 2: 300 shots reach it; asked about all 4096 it differs in 3, all at ties that rounding decides."
    )
    assert "2 of 4096 predictions differ from the pipeline's, all at ties" in told(2, 0, 3)[0]
