"""A small environment that shows predecoders both halves of the syndrome."""

from __future__ import annotations

from typing import Any

from autoqec.envs.environment import Environment
from autoqec.envs.load import load_env


def with_both_halves(osd_bases: str = "observable_with_context", **noise: Any) -> Environment:
    """Two rounds of the Steane code under circuit noise: 9 Z and 6 X detectors or so, brute force is possible."""
    return load_env(
        {
            "name": "steane_both_halves",
            "code": {"type": "parity_check_matrix", "source": "steane", "rounds": 2},
            "noise": {"type": "depolarizing", "p": [0.02], **noise},
            "constraints": {},
            "baseline_decoders": ["bposd"],
            "classical_backend": "osd",
            "eval_protocol": {"osd_bases": osd_bases},
        }
    )
