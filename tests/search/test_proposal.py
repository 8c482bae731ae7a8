"""One proposal from the proposer to the history row: without a config, with one, and as it is saved."""

from __future__ import annotations

import pytest

from autoqec.agents.schemas import CoderResponse, IdeatorResponse
from autoqec.search.proposal import Proposal

CONFIG = {"type": "neural_bp", "output_mode": "soft_priors", "neural_bp": {"iterations": 5}}


def test_a_hypothesis_is_a_proposal_before_it_has_a_config() -> None:
    proposal = Proposal(hypothesis="shorter", rationale="cheap", origin={"proposer": "x"})
    assert not proposal.is_coded
    assert proposal.coder is None
    coded = proposal.with_code(CONFIG, rationale="so", coder="y")
    assert coded.is_coded
    assert (coded.rationale, coded.coder["rationale"]) == ("cheap", "so")
    assert coded.origin == {"proposer": "x", "coder": "y"}
    assert coded.dsl_config["training"]["epochs"] == 3  # every option is written out
    assert proposal.dsl_config is None


def test_a_config_that_is_not_one_is_refused() -> None:
    with pytest.raises(ValueError, match="iterations"):
        Proposal(hypothesis="h").with_code({**CONFIG, "neural_bp": {"iterations": 0}})


def test_what_is_saved_has_the_keys_of_the_roles_responses() -> None:
    proposal = Proposal(hypothesis="both", fork_from=["a", "b"], compose_mode="with_edit").with_code(CONFIG)
    assert list(proposal.idea) == list(IdeatorResponse.model_fields)
    assert list(proposal.coder) == list(CoderResponse.model_fields)
    assert IdeatorResponse.model_validate(proposal.idea).fork_from == ["a", "b"]
    assert CoderResponse.model_validate(proposal.coder).tier == "1"


def test_a_pure_composition_has_no_coder() -> None:
    proposal = Proposal(hypothesis="both", fork_from=["a", "b"], compose_mode="pure")
    assert proposal.is_coded
    assert proposal.with_code(CONFIG).coder is None
