"""How far answers and gradients of the Triton kernels are from those of torch in double precision, as JSON.

A program of its own: Triton decides on import whether it compiles or interprets (`TRITON_INTERPRET=1`).
"""

import json
import sys
from types import SimpleNamespace

import numpy as np
import scipy.sparse as sp
import torch

from autoqec.decoders.dsl_schema import GnnSpec
from autoqec.decoders.modules.device_bp import device_propagation
from autoqec.decoders.modules.edge_features import Shots
from autoqec.decoders.modules.gnn import Layer
from autoqec.decoders.modules.graph_view import GraphView
from autoqec.decoders.modules.neural_bp import Propagated, Weights, propagate
from autoqec.decoders.modules.structure import TannerLinks
from autoqec.envs.load import load_env

DEVICE = torch.device(sys.argv[1])
# Checks of degree 1 to 5, faults of degree 1 to 3.
H = np.array([[1, 1, 1, 0, 1, 1], [0, 1, 0, 1, 0, 1], [0, 0, 1, 1, 0, 1], [0, 0, 0, 0, 1, 0]])


def differences(ours, reference):
    return {
        name: float((found.double() - expected).norm() / (expected.norm() + 1e-12))
        for (name, found), expected in zip(ours.items(), reference.values(), strict=True)
    }


def propagated(*, kernels, min_sum, memory, begins, batch=5):
    dtype = torch.float32 if kernels else torch.float64
    links = TannerLinks(
        SimpleNamespace(h=sp.csc_array(H), n_checks=4, n_faults=6, priors=np.full(6, 0.1), rates=None)
    )
    links = links.to(DEVICE)
    generator = torch.Generator().manual_seed(1)

    def drawn(*shape, scale=1.0, shift=0.0):
        tensor = shift + scale * torch.randn(*shape, generator=generator, dtype=torch.float64)
        return tensor.to(DEVICE, dtype).requires_grad_()

    syndrome = (torch.rand(4, batch, generator=generator) < 0.4).to(DEVICE, dtype)
    prior = drawn(6, batch, shift=2.0, scale=2.0)
    weights = Weights(
        drawn(3, links.n_links, shift=1.0, scale=0.2),
        drawn(3, shift=0.4, scale=0.1),
        drawn(6, scale=0.3) if memory else None,
        drawn(3),
    )
    begin = Propagated(prior, drawn(6, batch), drawn(links.n_links, batch)) if begins else None
    if kernels:
        messages, last = (None, None) if begin is None else (begin.messages, begin.last.detach())
        found = Propagated(
            *device_propagation(
                links, syndrome, prior, *weights, messages, last, min_sum=min_sum, goes_on=True
            )
        )
    else:
        found = propagate(links, syndrome, prior, weights, begin, min_sum=min_sum, fused=False)
    (found.answer.sin().sum() + found.last.cos().sum() + found.messages.sin().sum()).backward()
    asked = {"prior": prior, "link": weights.link, "damping": weights.damping, "readout": weights.readout}
    asked |= {"memory": weights.memory} if memory else {}
    asked |= {"messages": begin.messages} if begins else {}
    return found._asdict() | {f"by {name}": tensor.grad for name, tensor in asked.items()}


def heard(message, aggregation, *, kernels, batch=3, hidden=5):
    dtype = torch.float32 if kernels else torch.float64
    view = GraphView(load_env("steane_custom_dem").problem(0.01)).to(DEVICE, dtype)
    torch.manual_seed(2)
    layer = Layer(GnnSpec(message_fn=message, aggregation=aggregation, hidden_dim=hidden), 2).to(
        DEVICE, dtype
    )
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(batch, view.n_nodes, hidden, generator=generator).to(DEVICE, dtype).requires_grad_()
    values = torch.randn(batch, view.n_outputs, 2, generator=generator).to(DEVICE, dtype).requires_grad_()
    bits = (torch.rand(batch, view.n_nodes, generator=generator) < 0.3).to(DEVICE, dtype)
    shots = Shots(bits, values)
    total = (
        layer.message.summed(x, layer.edges, shots, view) if kernels else layer._aggregated(x, shots, view)
    )
    if kernels and aggregation == "mean":
        total = total / view.by_target.count.clamp(min=1.0)
    total.sin().sum().backward()
    gradients = {name: p.grad for name, p in layer.named_parameters() if p.grad is not None}
    return {"total": total.detach(), "by x": x.grad, "by values": values.grad, **gradients}


def main():
    found = {}
    for min_sum, memory, begins in (
        (False, True, False),
        (False, False, True),
        (True, False, False),
        (True, True, True),
    ):
        options = {"min_sum": min_sum, "memory": memory, "begins": begins}
        ours, reference = (propagated(kernels=kernels, **options) for kernels in (True, False))
        found[str(options)] = differences(ours, reference)
    for message, aggregation in (("gated_mlp", "sum"), ("residual_mlp", "mean")):
        ours, reference = (heard(message, aggregation, kernels=kernels) for kernels in (True, False))
        found[f"{message}, {aggregation}"] = differences(ours, reference)
    print(json.dumps(found))


main()
