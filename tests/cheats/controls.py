"""Honest rounds: no guard may object to one, none may be called FAILED, and those with a large true gain must be VERIFIED."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from autoqec.envs.environment import Environment
from autoqec.envs.load import load_env
from autoqec.envs.schema import EnvSpec
from cheats import sources
from cheats.corpus import control
from cheats.scene import NETWORK, SHOTS, SOFT_BP, Change, Outcome, Scene, surface

_HARD = {"confidence": 0.99}


def builtin(name: str, p: float, **changes: Any) -> Environment:
    """A builtin environment, at the error rate where a difference shows soonest, with one baseline and few shots."""
    env = load_env(name)
    noise = env.spec.noise.model_copy(update={"p": [p], "reference_p": p})
    protocol = env.spec.eval_protocol.model_copy(
        update={"min_shots_verify": SHOTS, "osd_orders_reported": [0]}
    )
    update = {"noise": noise, "eval_protocol": protocol, "baseline_decoders": [], **changes}
    return Environment(env.spec.model_copy(update=update), root=env.root)


def _bp(mode: str = "soft_priors", **block: Any) -> dict[str, Any]:
    dsl = {"type": "neural_bp", "output_mode": mode, "neural_bp": {"iterations": 6, **block}}
    return {**dsl, "hard_flip": _HARD} if mode == "hard_flip" else dsl


def _net(mode: str = "soft_priors", **block: Any) -> dict[str, Any]:
    dsl = {"type": "gnn", "output_mode": mode, "gnn": {"layers": 1, "hidden_dim": 4, **block}}
    return {**dsl, "hard_flip": _HARD} if mode == "hard_flip" else dsl


def _both(mode: str = "soft_priors") -> dict[str, Any]:
    return {**_bp(mode), **_net(mode), "type": "hybrid"}


def _nudge(weights: dict[str, torch.Tensor]) -> None:
    """As after some training: every weight a little off its start."""
    generator = torch.Generator().manual_seed(1)
    for tensor in weights.values():
        tensor.add_(0.02 * torch.randn(tensor.shape, generator=generator))


_CUSTOM = {
    "type": "custom",
    "code": "def message(x_src, x_dst, e_ij, params):\n    return torch.tanh(params.W(x_src) + e_ij)\n",
    "params_declared": {"W": "Linear(hidden, hidden)"},
}

_D5 = ("surface_d5_depol", 0.01)
_ROUNDS: tuple[tuple[str, tuple[str, float] | None, Mapping[str, Any], Change | None, bool, int], ...] = (
    ("untrained belief propagation, d = 4", None, SOFT_BP, None, True, 3),
    ("untrained belief propagation, d = 5", _D5, _bp(iterations=8), None, True, 4),
    ("nudged belief propagation, d = 5", _D5, _bp(iterations=8), _nudge, True, 4),
    ("per-check weights and prior mix, d = 5", _D5, _bp(weight_sharing="per_check", prior_mix=True), None, True, 4),
    ("belief propagation with memory, d = 4", None, _bp(memory="learnable"), None, True, 3),
    ("min-sum belief propagation, d = 4", None, _bp(check_rule="min_sum"), None, True, 3),
    ("belief propagation under biased noise", ("surface_d5_biased", 0.01), _bp(iterations=8), None, False, 1),
    ("belief propagation under leakage", ("surface_d5_leakage", 0.005), _bp(), None, False, 1),
    ("belief propagation, hard flips, d = 3", ("surface_d3_depol", 0.01), _bp("hard_flip", iterations=3), None, False, 1),
    ("network, soft priors, builtin d = 3", ("surface_d3_depol", 0.01), NETWORK, None, False, 1),
    ("network, hard flips, d = 3", ("surface_d3_depol", 0.01), _net("hard_flip"), None, False, 1),
    ("network with attention, d = 3", ("surface_d3_depol", 0.01), _net(message_fn="attention"), None, False, 1),
    ("network with custom code, d = 4", None, _net(message_fn=_CUSTOM), None, False, 1),
    ("hybrid, soft priors, d = 4", None, _both(), None, True, 3),
    ("hybrid, hard flips, d = 3", ("surface_d3_depol", 0.01), _both("hard_flip"), None, False, 1),
    ("network on the repetition code", ("repetition_d9_tanner", 0.06), NETWORK, None, False, 1),
    ("belief propagation on the Steane code", ("steane_custom_dem", 0.01), _bp(), None, False, 1),
    ("belief propagation on bb72, capacity", ("bb72_capacity", 0.09), _bp(), None, False, 1),
)  # fmt: skip


def _player(
    where: tuple[str, float] | None, dsl: Mapping[str, Any], change: Change | None, floors: int
) -> Any:
    def play(scene: Scene) -> Outcome:
        env = Environment(EnvSpec.model_validate(surface(4))) if where is None else builtin(*where)
        return scene.verify(scene.round(dsl, change, env=env), env=env, cap=floors * SHOTS)

    return play


for _name, _where, _dsl, _change, _wins, _floors in _ROUNDS:
    _mode, _family = _dsl["output_mode"], _dsl["type"]
    control(
        _name,
        how=f"{_family}, {_mode}, {'surface_d4' if _where is None else _where[0]}",
        must_win=_wins,
    )(_player(_where, _dsl, _change, _floors))


@control(
    "belief propagation, d = 2",
    how="neural_bp, soft_priors, surface_d2: faults with the same detectors flip the observable or do not",
    must_win=False,
)
def _even(scene: Scene) -> Outcome:
    env = Environment(EnvSpec.model_validate(surface(2)))
    return scene.verify(scene.round(SOFT_BP, None, env=env), env=env, cap=SHOTS)


# Numbers that make the gain: with other numbers, fresh or shuffled, there is none.
_LEARNED = (
    sources.WEIGHTLESS
    + """

class _Learned(_Weightless):
    def __init__(self, dsl, problem):
        super().__init__(dsl, problem)
        self.gates = nn.Parameter(torch.zeros(self.edges.n_edges))
        signs = torch.ones(self.edges.n_edges)
        signs[torch.arange(self.edges.n_edges) * 7919 % 11 < 5] = -1
        self.register_buffer("signs", signs, persistent=False)

    def edge_log_odds(self, syndrome, ctx):
        plain = self._base(syndrome, ctx).T
        return plain + (self.gates * self.signs) * (self._propagated(syndrome, ctx) - plain)


PREDECODERS["gnn"] = _Learned
"""
)


@control(
    "committed network whose weights win",
    how="gnn, soft_priors, surface_d4, module of its own branch",
    must_win=True,
)
def _learned(scene: Scene) -> Outcome:
    scene.spec = surface(4)
    edges = scene.env.problem(0.01).graph.n_edges
    gates = np.ones(edges, np.float32)
    gates[np.arange(edges) * 7919 % 11 < 5] = -1
    folder = scene.committed(NETWORK, _LEARNED, gates=torch.from_numpy(gates))
    return scene.verify(folder, cap=2 * SHOTS)
