"""A sample of `make crash-test`: killed here and there, the run goes on and nothing is lost."""

from __future__ import annotations

import pytest
from crash_points import CrashTest, fast_folder


@pytest.mark.runs
def test_a_killed_run_goes_on() -> None:
    with fast_folder() as folder:
        test = CrashTest(folder, ["longer", "both", "conflict", "drift"])
        for act in test.acts:
            test.play(act, every=23)
    assert test.faults == []
    assert len(test.points) > 20
