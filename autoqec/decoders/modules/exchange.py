"""What the two halves of a CSS code tell each other about the faults that both of them see.

A half knows joint faults by their classes only. After some iterations it has evidence E_b on each of its classes: posterior
less prior, as log-odds that the parity of the class is even. A fault f of class b is told

    L_f = log((1 - p_f) / p_f) + 2 artanh(k_f tanh(s E_b / 2)),    k_f = product of 1 - 2 p_g over the other faults g of b

where k_f says that another member may be to blame, and the scale s holds back what would come around in circles. The other half
takes the parity of the faults of each of its own classes, 2 artanh prod tanh(L_f / 2), as its new prior.

All of it is rational in probabilities: with v = 1 - k_f tanh(s E_b / 2) a fault has q = p v / (p v + (1 - p)(2 - v)).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from autoqec.decoders.modules.segments import Segments
from autoqec.envs.halves import context_half
from autoqec.envs.problem import DecodingProblem

I64 = npt.NDArray[np.int64]
_LEAST, _MOST = 1e-10, 1 - 1e-7


class Odds(NamedTuple):
    """Of one direction, sorted by the class that listens; [., 1], or [., batch] where shots differ.

    probability, others: p_f and 1 - k_f of each fault. alone: [n_classes] that an odd number of the faults happened that the half
    which speaks does not see. prior: [n_classes] log-odds of the half that listens while nobody has spoken.
    """

    probability: Tensor
    others: Tensor
    alone: Tensor
    prior: Tensor

    def of(self, which: Tensor) -> Odds:
        return Odds(*(each[:, which] for each in self))


class Exchange(nn.Module):
    """From the half that speaks to the half that listens.

    Args:
        speaking, listening: [n_joint] the class of each joint fault in either half, -1 where it has none.
    """

    place: Tensor
    source: Tensor
    shown: Tensor
    fused: bool = True

    def __init__(self, speaking: I64, listening: I64, n_speaking: int, n_listening: int) -> None:
        super().__init__()
        self.n_speaking, self.n_listening = n_speaking, n_listening
        both = np.flatnonzero((speaking >= 0) & (listening >= 0))
        both = both[np.argsort(listening[both], kind="stable")]
        alone = np.flatnonzero((speaking < 0) & (listening >= 0))
        shown = np.flatnonzero(speaking >= 0)
        slot = np.full(len(speaking), -1, dtype=np.int64)
        slot[shown] = np.arange(len(shown))
        for name, table in {
            "place": both,  # of each fault that both see, among the joint ones
            "source": speaking[both],
            "among_shown": slot[both],
            "alone": alone,
            "shown": shown,
        }.items():
            self.register_buffer(name, torch.from_numpy(table.astype(np.int64)), persistent=False)
        self.by_class = Segments(listening[both], n_listening)
        self.by_class_alone = Segments(listening[alone], n_listening)
        self.by_source = Segments(speaking[shown], n_speaking)
        self.starts = np.concatenate([[0], np.cumsum(np.bincount(listening[both], minlength=n_listening))])

    def odds(self, joint_p: Tensor) -> Odds:
        """The tables of joint priors [rows, n_joint]."""
        p = joint_p.clamp(max=0.4999).T
        logs = torch.log1p(-2.0 * p)
        shown = logs[self.shown]
        total = self.by_source.sum(shown.T[..., None])[..., 0].T
        others = -torch.expm1(total[self.source] - shown[self.get_buffer("among_shown")])
        alone = self.by_class_alone.sum(logs[self.get_buffer("alone")].T[..., None])[..., 0].T
        whole = alone + self.by_class.sum(logs[self.place].T[..., None])[..., 0].T
        odd = (-torch.expm1(whole) / 2.0).clamp(_LEAST, _MOST)
        return Odds(p[self.place], others, -torch.expm1(alone) / 2.0, torch.log1p(-odd) - torch.log(odd))

    def forward(self, evidence: Tensor, scale: Tensor, odds: Odds) -> Tensor:
        """evidence [n_speaking, batch] -> prior log-odds [n_listening, batch]."""
        if self._fusible(evidence):
            from autoqec.decoders.modules.fused_exchange import fused_exchange

            return fused_exchange(self, evidence, scale, odds)
        doubt = (2.0 * torch.sigmoid(-scale * evidence))[self.source]
        v = doubt + (1.0 - doubt) * odds.others
        happened = odds.probability * v
        q = happened / (happened + (1.0 - odds.probability) * (2.0 - v))
        logs = torch.log1p(-2.0 * torch.minimum(q, 1.0 - q).clamp(max=0.4999999))
        even = torch.exp(self.by_class.sum(logs[None])[0])
        flips = torch.remainder(self.by_class.sum((q > 0.5).to(q.dtype)[None])[0], 2.0)
        both = (1.0 - (1.0 - 2.0 * flips) * even) / 2.0
        odd = (odds.alone + both - 2.0 * odds.alone * both).clamp(_LEAST, _MOST)
        return torch.log1p(-odd) - torch.log(odd)

    def _fusible(self, evidence: Tensor) -> bool:
        return (
            self.fused
            and not torch.compiler.is_compiling()
            and evidence.device.type == "cpu"
            and evidence.dtype == torch.float32
        )


def exchanges(problem: DecodingProblem) -> tuple[Exchange, Exchange]:
    """From the context to the backend's half, and back."""
    assert problem.joint is not None
    own, other = problem.joint.fault_of.astype(np.int64), context_half(problem.joint)
    context = other.class_of.astype(np.int64)
    sizes = problem.n_faults, other.n_faults
    return Exchange(context, own, sizes[1], sizes[0]), Exchange(own, context, *sizes)
