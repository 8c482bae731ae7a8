"""A Ray cluster, and what its nodes have. `ray_lanes` has the lanes."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ray
from ray.exceptions import RayError

from autoqec.errors import InputError
from autoqec.executors.protocol import Lanes, Program
from autoqec.executors.ray_lanes import ActorLanes, TaskLanes

OBJECT_STORE = 256 << 20
"""Bytes of the object store of a cluster that is started here: messages are small, and answers are taken one by one."""

_ANSWER_S = 10.0


@contextmanager
def connected(address: str | None) -> Iterator[RayExecutor]:
    """A cluster of this machine that ends with the block, or the one at `address`, which stays."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    own: dict[str, Any] = {"object_store_memory": OBJECT_STORE, "include_dashboard": False}
    here = "local" if address is None else address
    try:
        _check_answers(here)
        # Ray puts the working directory on the path of its workers, and it may be the checkout that is being judged.
        with contextlib.chdir("/"):
            ray.init(
                address=here, log_to_driver=False, logging_level="error", **(own if address is None else {})
            )
    except (RayError, OSError, RuntimeError, ValueError, OverflowError) as error:
        raise InputError(
            f"no Ray cluster can be used at {here}: {str(error).strip() or type(error).__name__}",
            where="--executor",
            hint="start one with `ray start --head`, or write ray alone for one of this machine",
        ) from error
    try:
        yield RayExecutor()
    finally:
        ray.shutdown()


def _check_answers(address: str) -> None:
    """Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if port.isdecimal():
        with socket.create_connection((host, int(port)), timeout=_ANSWER_S):
            pass


class RayExecutor:
    name = "ray"

    @property
    def cores(self) -> int:
        return max(1, int(ray.cluster_resources().get("CPU", 1)))

    def share(self, count: int) -> tuple[float, float]:
        nodes = _nodes()
        gpus = sum(gpus for _, gpus in nodes)
        largest = max((cpus for cpus, own in nodes if own or not gpus), default=1.0)
        return max(1.0, min(self.cores // count, largest)), min(1.0, gpus / count)

    def check(self, cpus: float, gpus: float) -> None:
        if gpus > 1 and not float(gpus).is_integer():
            raise InputError(
                f"Ray has no {gpus:g} GPUs for one process",
                where="--round-gpus",
                hint="give a fraction of one, or a whole number",
            )
        nodes = _nodes()
        if not any(cpus <= has_cpus and gpus <= has_gpus for has_cpus, has_gpus in nodes):
            there = "; ".join(f"{c:g} cores, {g:g} GPUs" for c, g in sorted(set(nodes), reverse=True))
            raise InputError(
                f"no node of the Ray cluster has {cpus:g} cores and {gpus:g} GPUs; its nodes have: {there or 'nothing'}",
                where="--executor",
                hint="ask for less with --round-cpus and --round-gpus, or add such a node",
            )

    def lanes(self, program: Program, count: int) -> Lanes:
        self.check(program.cpus, program.gpus)
        return ActorLanes(program, count) if program.is_kept else TaskLanes(program, count)


def _nodes() -> list[tuple[float, float]]:
    """Cores and GPUs of each node that is there."""
    found = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    return [(node.get("CPU", 0.0), node.get("GPU", 0.0)) for node in found]
