"""The Triton kernels against torch in double precision: on a GPU where there is one, else in Triton's interpreter."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

pytestmark = pytest.mark.skipif(
    find_spec("triton") is None, reason="Triton is not installed: it comes with torch for CUDA"
)


def test_answers_and_gradients_are_those_of_the_reference():
    on_gpu = torch.cuda.is_available()
    program = [
        sys.executable,
        str(Path(__file__).with_name("device_gradients.py")),
        "cuda" if on_gpu else "cpu",
    ]
    env = os.environ | ({} if on_gpu else {"TRITON_INTERPRET": "1"})
    ended = subprocess.run(program, check=False, capture_output=True, text=True, env=env)
    assert ended.returncode == 0, ended.stderr[-3000:]
    found = json.loads(ended.stdout.splitlines()[-1])
    assert len(found) == 6
    far = {
        f"{case}: {name}": by for case, names in found.items() for name, by in names.items() if not by < 2e-5
    }
    assert not far
