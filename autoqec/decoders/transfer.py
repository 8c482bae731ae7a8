"""Starting a predecoder from the checkpoint of another: of another config, or of another size of the same family of codes.

Numbers of neighbourhoods are matched by the names of their classes, all others by name and shape. The checkpoint is data: its
config is not compiled, and code in it does not run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import torch
from torch import Tensor, nn

from autoqec.decoders.checkpoint import CheckpointInfo
from autoqec.decoders.modules.cascade import CascadePredecoder
from autoqec.decoders.modules.predecoders import ProblemPredecoder
from autoqec.decoders.modules.sharing import class_names
from autoqec.decoders.transfer_report import ClassMatch, TransferReport
from autoqec.errors import InputError

_MOST_NAMED = 20
_T = TypeVar("_T")


def start_from(
    module: ProblemPredecoder, info: CheckpointInfo, state: dict[str, Tensor], *, sha256: str, where: str
) -> TransferReport:
    """Takes over in place what fits, and says what did. In a cascade that is the first stage, and every later one that takes it whole.

    Raises:
        InputError: nothing fits.
    """
    report = TransferReport(sha256=sha256, env_name=_plain(info.env_name))
    given = info.classes
    if isinstance(module, CascadePredecoder) and info.dsl.stages is None:
        places = [at for at, stage in enumerate(module.stages) if at == 0 or _fits(stage, state, given)]
        state, given = _at_stages(state, places), _at_stages(given, places)
    own = class_names(module)
    target = module.state_dict()
    for name, tensor in target.items():
        if (why := _misfit(name, tensor, state, own, given)) is not None:
            report.left[name] = why
        elif name in own:
            report.classes[name] = _take_classes(tensor, state[name], own[name], given[name])
        else:
            tensor.copy_(state[name])
            report.taken.append(name)
    if isinstance(module, CascadePredecoder):
        left = tuple(report.left)
        module.started = frozenset(
            at
            for at in range(len(module.stages))
            if not any(name.startswith(f"stages.{at}.") for name in left)
        )
    unused = sorted(map(_plain, state.keys() - target.keys()))
    report.unused += unused[:_MOST_NAMED]
    if len(unused) > _MOST_NAMED:
        report.unused.append(f"and {len(unused) - _MOST_NAMED} more")
    if not report.taken and not any(match.matched for match in report.classes.values()):
        first = next(iter(report.left.items()), ("the model", "it has no parameters"))
        raise InputError(
            f"nothing of it fits this predecoder ({first[0]}: {first[1]})",
            where=where,
            hint="start from a round of the same type and sizes, with weight_sharing: neighbourhood for another size of the code",
        )
    return report


def _at_stages(named: dict[str, _T], places: Sequence[int]) -> dict[str, _T]:
    """What a predecoder that is not a cascade has by name, as these stages of one."""
    return {f"stages.{at}.{name}": value for at in places for name, value in named.items()}


def _fits(stage: nn.Module, state: dict[str, Tensor], given: dict[str, list[str]]) -> bool:
    """Whether a later stage takes a checkpoint whole: a part of it would be a start for nothing."""
    own = class_names(stage)
    return all(
        _misfit(name, tensor, state, own, given) is None for name, tensor in stage.state_dict().items()
    )


def _plain(text: str) -> str:
    """A word of somebody else's file, fit for a terminal."""
    return "".join(each if each.isprintable() else "?" for each in text[:80])


def _misfit(
    name: str,
    tensor: Tensor,
    state: dict[str, Tensor],
    own: dict[str, list[str]],
    given: dict[str, list[str]],
) -> str | None:
    """Why a tensor of the model takes nothing; None if it can."""
    if name not in state:
        return "not in the checkpoint"
    if (name in own) != (name in given):
        return "shared by neighbourhood in one of the two only"
    theirs, ours = tuple(state[name].shape), tuple(tensor.shape)
    if name in own:
        if theirs[-1:] != (len(given[name]),) or len(set(given[name])) != len(given[name]):
            return "the checkpoint does not name its classes one by one"
        theirs, ours = theirs[:-1], ours[:-1]
    if theirs != ours:
        return f"{theirs} there, {ours} here"
    return None if torch.isfinite(state[name].to(tensor.dtype)).all() else "too large for its precision here"


def _take_classes(tensor: Tensor, given: Tensor, names: list[str], theirs: list[str]) -> ClassMatch:
    place = {name: at for at, name in enumerate(theirs)}
    found = [(to, place[name]) for to, name in enumerate(names) if name in place]
    to, at = (torch.tensor([pair[side] for pair in found], dtype=torch.long) for side in (0, 1))
    tensor[..., to] = given[..., at].to(tensor.dtype)
    return ClassMatch(matched=len(found), unseen=len(names) - len(found), unused=len(theirs) - len(found))
