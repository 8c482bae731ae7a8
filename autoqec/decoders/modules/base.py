"""PredecoderModule: the base of every predecoder.

The `forward` of docs/contract.md returns, in `hard_flip` mode, a syndrome from which defects were removed. Removing
defects is a correction, and a correction can flip a logical observable, so the cleaned syndrome alone does
not decide the shot. Here the faults come first and the syndrome follows from them:

    faults     = module.applied_faults(syndrome, ctx)      [batch, n_faults]
    residual   = syndrome XOR H faults                     what `forward` returns
    frame      = L faults                                  computed by the pipeline, from the problem's own L
    prediction = frame XOR backend(residual)
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn


class PredecoderModule(nn.Module):
    """A subclass sets `output_mode` and implements `fault_probabilities`; callers use `forward`.

    A subclass that overrides `forward` in `hard_flip` mode must override `applied_faults` to match it: the
    pipeline calls `applied_faults` and derives residual and frame from it.
    """

    output_mode: Literal["hard_flip", "soft_priors"]
    confidence: float = 0.9
    """`hard_flip`: a fault is applied when its probability exceeds this."""
    cpu_batch: int = 128
    """Shots to ask about at a time on a CPU: the activations of a graph network should stay in its cache."""

    def fault_probabilities(self, syndrome: Tensor, ctx: dict[str, Any]) -> Tensor:
        """[batch, n_checks] float -> [batch, n_faults] float in [0, 1], each row from its own shot alone."""
        raise NotImplementedError(f"{type(self).__name__} must implement fault_probabilities")

    def edge_log_odds(self, syndrome: Tensor, ctx: dict[str, Any]) -> Tensor | None:
        """Matching weights of its own: [batch, n_edges], or None to let the pipeline fold `fault_probabilities`."""
        return None

    def applied_faults(self, syndrome: Tensor, ctx: dict[str, Any]) -> Tensor:
        """The correction made before the backend runs: [batch, n_faults] bool; empty under `soft_priors`."""
        probabilities = self.fault_probabilities(syndrome.flatten(1), ctx)
        if self.output_mode == "soft_priors":
            return torch.zeros_like(probabilities, dtype=torch.bool)
        return probabilities > self.confidence

    def forward(self, syndrome: Tensor, ctx: dict[str, Any]) -> Tensor:
        """
        syndrome: [batch, n_checks] float (or [batch, T, n_checks] for circuit, flattened round by round).
        ctx: dict with keys:
            "tanner_edges": LongTensor [2, n_edges], row 0 the check and row 1 the fault of each one of H
            "edge_features": FloatTensor [n_edges, edge_dim]  (optional)
            "prior_p": FloatTensor [n_faults]  (optional)
            "joint_p": FloatTensor [n_joint]  (where a predecoder sees more detectors than the backend)
        Returns:
            hard_flip: LongTensor [batch, n_checks], the residual syndrome
            soft_priors: FloatTensor [batch, n_faults], probabilities for the backend
        """
        if self.output_mode == "soft_priors":
            return self.fault_probabilities(syndrome.flatten(1), ctx)
        return residual_syndrome(syndrome, self.applied_faults(syndrome, ctx), ctx["tanner_edges"])


def residual_syndrome(syndrome: Tensor, faults: Tensor, tanner_edges: Tensor) -> Tensor:
    """syndrome XOR H faults: LongTensor [batch, n_checks], with `tanner_edges` as in `forward`."""
    checks, columns = tanner_edges
    bits = syndrome.flatten(1).long()
    return bits.index_add(1, checks, faults.long()[:, columns]) % 2
