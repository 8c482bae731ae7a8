"""PredecoderModule: in `hard_flip` mode the residual follows from the faults that were applied."""

from __future__ import annotations

from typing import Any, Literal

import pytest

torch = pytest.importorskip("torch")

from autoqec.decoders.modules.base import PredecoderModule, residual_syndrome  # noqa: E402

H = torch.tensor([[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]])
CTX = {"tanner_edges": H.nonzero().T}


class Fixed(PredecoderModule):
    """Sure of fault 1, unsure of the others."""

    def __init__(self, output_mode: Literal["hard_flip", "soft_priors"]) -> None:
        super().__init__()
        self.output_mode = output_mode

    def fault_probabilities(self, syndrome: Any, ctx: dict[str, Any]) -> Any:
        assert syndrome.shape[1] == ctx["tanner_edges"][0].max() + 1
        return torch.tensor([0.1, 0.95, 0.5, 0.9]).expand(len(syndrome), 4)


def shots() -> Any:
    return torch.tensor([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])


def test_soft_priors_are_the_probabilities() -> None:
    out = Fixed("soft_priors")(shots(), CTX)
    assert out.shape == (2, 4)
    assert out.is_floating_point()
    assert not Fixed("soft_priors").applied_faults(shots(), CTX).any()


def test_hard_flip_returns_the_residual_of_the_applied_faults() -> None:
    module = Fixed("hard_flip")
    faults = module.applied_faults(shots(), CTX)
    assert faults.tolist() == [[False, True, False, False]] * 2  # 0.9 does not exceed the confidence 0.9
    out = module(shots(), CTX)
    assert out.dtype == torch.long
    assert out.tolist() == [[0, 0, 0], [1, 1, 1]]


def test_confidence_is_the_threshold() -> None:
    module = Fixed("hard_flip")
    module.confidence = 0.4
    assert module.applied_faults(shots(), CTX).tolist() == [[False, True, True, True]] * 2


def test_syndrome_by_rounds_is_flattened_round_by_round() -> None:
    module = Fixed("hard_flip")
    assert torch.equal(module(shots()[:, :, None], CTX), module(shots(), CTX))


def test_residual_is_the_syndrome_plus_h_faults_mod_2() -> None:
    generator = torch.Generator().manual_seed(1)
    syndrome = torch.randint(0, 2, (50, 3), generator=generator)
    faults = torch.randint(0, 2, (50, 4), generator=generator).bool()
    expected = (syndrome + faults.long() @ H.T) % 2
    assert torch.equal(residual_syndrome(syndrome.float(), faults, CTX["tanner_edges"]), expected)
    assert residual_syndrome(syndrome[:0].float(), faults[:0], CTX["tanner_edges"]).shape == (0, 3)


def test_a_module_without_probabilities_says_so() -> None:
    class Empty(PredecoderModule):
        output_mode = "soft_priors"

    with pytest.raises(NotImplementedError, match="Empty must implement fault_probabilities"):
        Empty()(shots(), CTX)
