"""Whether the hard decision of fault log-odds has the syndrome."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from autoqec.decoders.modules.structure import TannerLinks


def has_syndrome(links: TannerLinks, log_odds: Tensor, syndrome: Tensor, *, fused: bool) -> Tensor:
    """[batch], from log_odds [n_faults, batch] and syndrome [n_checks, batch]. Checks without links are not asked.

    fused: eight shots in a byte, where that can be done: on a CPU, and not while torch traces.
    """
    if fused and log_odds.device.type == "cpu" and not torch.compiler.is_compiling():
        return _of_bits(links, log_odds, syndrome)
    flips = links.by_check.sum((log_odds < 0).to(log_odds.dtype)[links.fault][None])[0]
    wrong = (torch.remainder(flips, 2.0) != syndrome) & (links.by_check.count > 0)
    return ~wrong.any(dim=0)


def _of_bits(links: TannerLinks, log_odds: Tensor, syndrome: Tensor) -> Tensor:
    flips = np.packbits(log_odds.detach().numpy() < 0, axis=1)
    checks, begin = np.unique(links.check.numpy(), return_index=True)  # the links of a check stand together
    asked = np.packbits(syndrome.numpy()[checks] != 0, axis=1)
    wrong = np.bitwise_xor.reduceat(flips[links.fault.numpy()], begin, axis=0) ^ asked
    bits = np.unpackbits(np.bitwise_or.reduce(wrong, axis=0), count=log_odds.shape[1])
    return torch.from_numpy(bits == 0)
