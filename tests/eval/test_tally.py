"""Shots that the stages of a model were asked about."""

from __future__ import annotations

from autoqec.eval.tally import Tally


def test_a_model_without_stages_has_none_that_were_reached() -> None:
    assert Tally().reached(0.01, "model") == ()
