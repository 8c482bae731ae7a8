"""Proposers and analyst on real rounds: trained and validated by the runner, with few shots."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autoqec.agents.schemas import AnalystResponse
from autoqec.agents.words_check import check_words
from autoqec.envs.environment import Environment
from autoqec.envs.load import load_env
from autoqec.runner.execute import Round
from autoqec.runner.profiles import PROFILES
from autoqec.runner.safety import Safety
from autoqec.runner.schema import RunnerConfig
from autoqec.search import proposers
from autoqec.search.analyst import analyse, gains
from autoqec.search.proposal import EnvFacts, RoundContext

P = 0.01


def small() -> Environment:
    env = load_env("surface_d3_depol")
    noise = env.spec.noise.model_copy(update={"p": [P], "reference_p": P})
    protocol = env.spec.eval_protocol.model_copy(update={"min_shots_train": 10_000, "min_shots_val": 100_000})
    update = {"noise": noise, "eval_protocol": protocol, "baseline_decoders": []}
    return Environment(env.spec.model_copy(update=update), env.root)


@pytest.mark.slow
def test_the_first_rounds_of_a_real_run(tmp_path):
    env = small()
    facts = EnvFacts(env.spec, P, "dev", env.problem(P))
    rows = []
    for number in (1, 2, 3):
        context = RoundContext(
            env=facts, seed=number, round=number, rounds_planned=6, history=tuple(rows), memory_gb=4.0
        )
        proposal = proposers.make("optuna").propose(context)
        config = RunnerConfig(
            env_name=env.spec.name,
            predecoder_config=proposal.dsl_config,
            round_dir=str(tmp_path / str(number)),
        )
        (tmp_path / str(number)).mkdir()
        one = Round(config, env, Safety(), workers=1)
        one.profile = replace(PROFILES["dev"], select_shots=512, hard_shots=512)
        metrics = one.run().model_dump(mode="json")
        assert metrics["status"] == "ok"
        counted = {name: proposal.origin[name] for name in ("flops_per_syndrome", "n_params")}
        assert counted == {name: metrics[name] for name in counted}
        said = analyse(metrics)
        assert (said.verdict == "candidate") == gains(metrics)
        words = AnalystResponse(
            summary_1line=said.summary_1line,
            verdict=said.verdict,
            next_hypothesis_seed=said.next_hypothesis_seed,
        )
        assert check_words(words, metrics).corrections == ()
        rows.append(metrics | {"round": number, "dsl_config": proposal.dsl_config, "origin": proposal.origin})
    assert [row["origin"]["example"] for row in rows] == ["neural_bp_untrained", "neural_bp_gap", None]
    assert gains(rows[0])  # untrained belief propagation already beats plain matching
