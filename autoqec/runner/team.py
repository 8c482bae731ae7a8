"""Processes that train one model together, on one machine: each draws shots of its own, and their gradients are averaged.

A module wrapped in torch's DistributedDataParallel would not do: the loss calls the module part by part and asks the backend in between,
and gradients arrive in several goes. So the gradients of a whole step are averaged at its end, in one message.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn

_PATIENCE = timedelta(hours=2)
"""The longest that one process waits for another: while the first one scores a state, all others do."""
_LAST_WORDS_S = 120.0
"""So long the first process has after another one failed: what stopped that one mostly stops it, too, and it then says why."""


@dataclass(frozen=True)
class Team:
    """rank: of this process; the first one leads: it writes files and scores states. Alone, nothing is sent."""

    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        return self.rank == 0

    def average(self, module: nn.Module, loss: Tensor) -> Tensor:
        """Every gradient becomes the mean over all processes; returns the mean loss. One NaN anywhere is one everywhere."""
        if self.size == 1:
            return loss
        learned = [each for each in module.parameters() if each.requires_grad]
        parts = [
            each.new_zeros(each.numel()) if each.grad is None else each.grad.flatten() for each in learned
        ]
        sent = torch.cat([*parts, loss.to(parts[0]).reshape(1)]) / self.size
        dist.all_reduce(sent)
        for each, part in zip(
            learned, torch.split(sent[:-1], [each.numel() for each in learned]), strict=True
        ):
            each.grad = part.view_as(each).clone()
        return sent[-1]

    def lead(self, value: Callable[[], float]) -> float:
        """What the first process finds, on all of them; the others do not look for it."""
        if self.size == 1:
            return value()
        sent = torch.tensor([value() if self.leads else 0.0], dtype=torch.float64, device=_device())
        dist.broadcast(sent, src=0)
        return float(sent[0])


ALONE = Team()


def _device() -> torch.device:
    return torch.device("cuda" if dist.get_backend() == "nccl" else "cpu")


def size_of(processes: int | None) -> int:
    """processes: as asked for; by default one for each GPU, and one without any."""
    return processes if processes is not None else max(1, torch.cuda.device_count())


@contextlib.contextmanager
def joined(meeting: Path, rank: int, size: int) -> Iterator[Team]:
    """meeting: a file that does not exist yet, by which the processes find each other."""
    if torch.cuda.is_available():
        torch.cuda.set_device(rank % torch.cuda.device_count())
    # Two processes on one GPU, or on none, talk through the host.
    backend = "nccl" if torch.cuda.device_count() >= size else "gloo"
    where = f"file://{meeting}"
    dist.init_process_group(backend, init_method=where, rank=rank, world_size=size, timeout=_PATIENCE)
    try:
        yield Team(rank, size)
    finally:
        dist.destroy_process_group()


@contextlib.contextmanager
def led(job: Path, meeting: Path, size: int) -> Iterator[Team]:
    """The team whose first process this is; the others are started here, with the same job, and end with this one's process group."""
    if size == 1:
        yield ALONE
        return
    helpers = [
        subprocess.Popen(
            [sys.executable, "-P", "-m", "autoqec.runner.child", str(job), str(rank), str(size), str(meeting)]
        )
        for rank in range(1, size)
    ]
    is_over = threading.Event()
    for rank, helper in enumerate(helpers, start=1):
        threading.Thread(target=_watch, args=(rank, helper, is_over), daemon=True).start()
    try:
        with joined(meeting, 0, size) as team:
            yield team
    finally:
        is_over.set()


def _watch(rank: int, helper: subprocess.Popen[bytes], is_over: threading.Event) -> None:
    """Nobody would hear from a process that ended early, and all others would wait for it. is_over: this process no longer does."""
    if (code := helper.wait()) == 0:
        return
    print(f"training process {rank} ended with code {code}", file=sys.stderr, flush=True)
    if not is_over.wait(_LAST_WORDS_S):
        os._exit(1)
