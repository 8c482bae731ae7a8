"""A problem comes back whole from plain data and arrays."""

import json
from dataclasses import fields, is_dataclass

import numpy as np
import pytest
import scipy.sparse as sp

from autoqec.envs.load import load_env
from autoqec.envs.problem_arrays import from_arrays, to_arrays


def same(one, other) -> bool:
    if is_dataclass(one):
        return all(same(getattr(one, field.name), getattr(other, field.name)) for field in fields(one))
    if sp.issparse(one):
        return type(one) is type(other) and one.shape == other.shape and (one != other).nnz == 0
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
    return one == other


@pytest.mark.parametrize("name", ["surface_d3_depol", "bb72_capacity"])
def test_a_problem_comes_back_whole(name: str) -> None:
    env = load_env(name)
    problem = env.problem(env.spec.noise.p[0])
    meta, arrays = to_arrays(problem)
    assert all(not array.dtype.hasobject for array in arrays.values())
    assert same(problem, from_arrays(json.loads(json.dumps(meta)), arrays))
