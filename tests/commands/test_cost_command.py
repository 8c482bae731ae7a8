"""`autoqec cost`: what a round would say of its cost, without a round."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from autoqec.commands import main

ENV = {
    "name": "steane_both_halves",
    "code": {"type": "parity_check_matrix", "source": "steane", "rounds": 2},
    "constraints": {},
    "baseline_decoders": ["bposd"],
    "classical_backend": "osd",
    "eval_protocol": {"osd_bases": "observable_with_context"},
}


@pytest.mark.slow
def test_the_cost_is_that_at_the_reference_p(tmp_path: Path) -> None:
    """Turbo propagation stops once it explains a shot, which takes longer where there are more faults."""
    found = {}
    for at in (0.001, 0.03):
        noise = {"type": "depolarizing", "p": [0.001, 0.03], "reference_p": at}
        env = tmp_path / f"{at}.yaml"
        env.write_text(yaml.safe_dump({**ENV, "noise": noise}))
        done = CliRunner().invoke(main, ["cost", "turbo_untrained", "--env", str(env), "--json"])
        assert done.exit_code == 0, done.output
        found[at] = json.loads(done.stdout)["flops_per_syndrome"]
    assert found[0.001] < found[0.03]
