"""Every test session has its own cache folder, so that nothing from earlier runs can make a test pass."""

import os
import tempfile

import pytest


@pytest.fixture(scope="session", autouse=True)
def _own_cache() -> object:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["AUTOQEC_CACHE"] = folder
        yield
        del os.environ["AUTOQEC_CACHE"]
