"""Turbo propagation: learned belief propagation on the two halves of a CSS code by turns (`exchange` says what they tell each other).

Each exchange runs some iterations on the context's half, tells the backend's half, runs some iterations there, and tells the
context's half. Messages go on from where they were. A shot is done as soon as the hard decision of the backend's half has its
syndrome: most are after the first exchange, so what a shot costs on average is far below what it may cost.

Shots that no exchange explains get further attempts, the legs, as in Relay-BP (Mueller et al. 2025): from the start, with a memory
of its own strength for every fault. Of the solutions found the lightest counts, weighed by what the context says: the mean of
the priors that the backend's half was given in all of the shot's attempts.

Untrained this is a classical decoder. Training runs all exchanges of the first attempt, without stopping.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from autoqec.decoders.dsl_schema import NeuralBpSpec
from autoqec.decoders.modules.exchange import Odds, exchanges
from autoqec.decoders.modules.hard_decision import has_syndrome
from autoqec.decoders.modules.neural_bp import Propagated, Weights, propagate
from autoqec.decoders.modules.sharing import link_rows
from autoqec.decoders.modules.structure import TannerLinks
from autoqec.envs.halves import context_half
from autoqec.envs.problem import DecodingProblem
from autoqec.errors import InputError

SCALE = 0.9
DAMPING = 0.3
LEG_DAMPING = 0.2
MEMORY = (-0.15, 0.5)
"""Where the scale of an exchange, the damping, and the damping and the memory's strengths of a leg start. Measured on BB72,
p = 3e-3, 200,000 shots, 8 exchanges of 2 + 4 iterations: 934 failures; with up to 16 legs and 4 solutions 730; with memories from
-0.1 to 0.4 and damping 0.3: 758.
"""
_PART = 512


class Attempt(NamedTuple):
    """answer, prior: [n_faults, batch] log-odds, and those that the backend's half was given last; explained: [batch].

    told: [n_context, batch] what the context's half said last. exchanges: [batch] how many were made. Both only where they are asked for.
    """

    answer: Tensor
    prior: Tensor
    explained: Tensor
    told: Tensor | None = None
    exchanges: Tensor | None = None


class _Half(nn.Module):
    """The learned numbers of one half: one row of weights per iteration of every exchange. answers: whether its mean posterior
    counts, and not its last one alone.
    """

    readout: Tensor

    def __init__(
        self, spec: NeuralBpSpec, links: TannerLinks, iterations: int, exchanges: int, *, answers: bool
    ) -> None:
        super().__init__()
        self.links, self.iterations = links, iterations
        self.min_sum = spec.check_rule == "min_sum"
        self.weight_rows = link_rows(spec, links)
        self.weight = nn.Parameter(torch.ones(exchanges * iterations, self.weight_rows.count))
        readout = torch.full((exchanges, iterations), 1.0 / iterations)
        if answers:
            self.readout = nn.Parameter(readout)
        else:
            self.register_buffer("readout", readout, persistent=False)

    def weights(self, exchange: int, damping: Tensor, memory: Tensor | None) -> Weights:
        rows = slice(exchange * self.iterations, (exchange + 1) * self.iterations)
        link = self.weight_rows(self.weight[rows])
        return Weights(link, damping.expand(self.iterations), memory, self.readout[exchange])


class TurboBP(nn.Module):
    """Fault log-odds of the backend's half from the whole syndrome. Tensors are [rows, batch]."""

    damping: Tensor
    fused: bool = True

    def __init__(self, spec: NeuralBpSpec, problem: DecodingProblem, links: TannerLinks) -> None:
        super().__init__()
        if spec.turbo is None or problem.joint is None:
            raise InputError(
                f"{problem.name} shows a predecoder one half of the syndrome",
                where="neural_bp.turbo",
                hint="use an environment with eval_protocol.osd_bases: observable_with_context, or remove turbo",
            )
        turbo = self.turbo = spec.turbo
        self.own = _Half(spec, links, spec.iterations, turbo.exchanges, answers=True)
        other = context_half(problem.joint)
        self.context = _Half(
            spec, TannerLinks(other), turbo.context_iterations, turbo.exchanges, answers=False
        )
        self.to_own, self.to_context = exchanges(problem)
        self.scale = nn.Parameter(torch.full((turbo.exchanges, 2), SCALE))
        damping = torch.full((turbo.exchanges if spec.damping == "learnable_per_iter" else 1,), DAMPING)
        if spec.damping == "fixed":
            self.register_buffer("damping", damping, persistent=False)
        else:
            self.damping = nn.Parameter(damping)
        self.leg_memory = nn.Parameter(torch.tensor([MEMORY] * turbo.legs).reshape(turbo.legs, 2))
        self.leg_scale = nn.Parameter(torch.full((turbo.legs,), SCALE))
        self.leg_damping = nn.Parameter(torch.full((turbo.legs,), LEG_DAMPING))
        rng, disorder = (
            np.random.Generator(np.random.PCG64(0)),
            torch.empty(turbo.legs, problem.n_faults + other.n_faults),
        )
        for leg in disorder:
            leg.copy_(torch.from_numpy(rng.random(len(leg)).astype(np.float32)))
        self.register_buffer("disorder", disorder, persistent=False)
        joint_p = torch.from_numpy(problem.joint.priors).float()
        self.register_buffer("joint_p", joint_p, persistent=False)

    def forward(self, syndrome: Tensor, ctx: dict[str, Any]) -> Tensor:
        """syndrome: [n_checks, batch]; ctx: "joint_p" [n_joint], or [n_p, n_joint] with "which_p" [batch]."""
        if torch.is_grad_enabled() and self.training:
            return self.unstopped(syndrome, ctx)
        odds = self._odds(ctx)
        return self._with_legs(self._first(syndrome, odds), syndrome, odds)

    def unstopped(self, syndrome: Tensor, ctx: dict[str, Any]) -> Tensor:
        """The answer of the first attempt after all of its exchanges, whatever they explain."""
        return self._attempt(None, syndrome, self._odds(ctx), stops=False).answer

    def after(self, answer: Tensor, syndrome: Tensor, ctx: dict[str, Any]) -> Tensor:
        """The legs alone, where the first attempt was made elsewhere and has this answer, [n_faults, batch] log-odds."""
        explained = has_syndrome(self.own.links, answer, syndrome, fused=self.fused)
        return self._with_legs(
            Attempt(answer, torch.zeros_like(answer), explained), syndrome, self._odds(ctx)
        )

    def attempt(self, leg: int | None, syndrome: Tensor, ctx: dict[str, Any]) -> Attempt:
        """One attempt at every shot, the first one for None, with all that is known of it."""
        return self._attempt(leg, syndrome, self._odds(ctx), stops=True, in_full=True)

    def _with_legs(self, first: Attempt, syndrome: Tensor, odds: _Given) -> Tensor:
        left = torch.nonzero(~first.explained)[:, 0]
        if not (self.turbo.legs and len(left)):
            return first.answer
        some = Attempt(first.answer[:, left], first.prior[:, left], first.explained[left])
        return first.answer.index_copy(1, left, self._best(some, syndrome[:, left], odds.of(left)))

    def _odds(self, ctx: dict[str, Any]) -> _Given:
        joint_p = ctx.get("joint_p", self.get_buffer("joint_p"))
        odds = _Given(
            *(each.odds(joint_p.reshape(-1, joint_p.shape[-1])) for each in (self.to_own, self.to_context))
        )
        return odds.of(ctx["which_p"]) if joint_p.ndim == 2 else odds

    def _first(self, syndrome: Tensor, odds: _Given) -> Attempt:
        """The first attempt at every shot; on a CPU in parts whose messages fit its cache, so that the legs can take many shots at a time."""
        shots = torch.arange(syndrome.shape[1], device=syndrome.device)
        if torch.compiler.is_compiling() or syndrome.device.type != "cpu" or len(shots) <= _PART:
            return self._attempt(None, syndrome, odds, stops=True)
        parts = [
            self._attempt(None, syndrome[:, part], odds.of(part), stops=True)
            for part in torch.split(shots, _PART)
        ]
        return Attempt(
            torch.cat([part.answer for part in parts], dim=1),
            torch.cat([part.prior for part in parts], dim=1),
            torch.cat([part.explained for part in parts]),
        )

    def _best(self, first: Attempt, syndrome: Tensor, odds: _Given) -> Tensor:
        """The lightest solution of the legs, where there is one; else the first attempt's answer.

        A shot is done with the legs once it has `solutions` of them.
        """
        shots = torch.arange(syndrome.shape[1], device=syndrome.device)
        found = torch.zeros(syndrome.shape[1], device=syndrome.device)
        yardstick, answers, solved = first.prior, [], []
        for leg in range(self.turbo.legs):
            now = self._attempt(leg, syndrome, odds, stops=True)
            yardstick = yardstick.index_add(1, shots, now.prior)
            answers.append(torch.zeros_like(first.answer).index_copy(1, shots, now.answer))
            solved.append(torch.zeros_like(first.explained).index_copy(0, shots, now.explained))
            found = found + solved[-1].to(found.dtype)
            left = torch.nonzero(found[shots] < self.turbo.solutions)[:, 0]
            if not len(left):
                break
            if len(left) < len(shots):
                shots, syndrome, odds = shots[left], syndrome[:, left], odds.of(left)
        answer, lightest = first.answer, torch.full_like(first.answer[0], torch.inf)
        for solution, is_one in zip(answers, solved, strict=True):
            weight = torch.where(solution < 0, yardstick, 0.0).sum(dim=0)
            better = is_one & (weight < lightest)
            answer = torch.where(better, solution, answer)
            lightest = torch.where(better, weight, lightest)
        return answer

    def _attempt(
        self, leg: int | None, syndrome: Tensor, odds: _Given, *, stops: bool, in_full: bool = False
    ) -> Attempt:
        """One attempt at every shot. stops: a shot is done once it is explained. in_full: with all that is known of it."""
        batch = syndrome.shape[1]
        exchanges = self.turbo.exchanges if leg is None else self.turbo.leg_exchanges
        compact = stops and not torch.compiler.is_compiling()
        prior = odds.own.prior.expand(-1, batch)
        context_prior = odds.context.prior.expand(-1, batch)
        found: Attempt | None = None
        shots = torch.arange(batch, device=syndrome.device)
        own: Propagated | None = None
        context: Propagated | None = None
        for k in range(exchanges):
            numbers = self._numbers(leg, k)
            context = propagate(
                self.context.links, syndrome, context_prior, numbers.context, context,
                min_sum=self.context.min_sum, fused=self.fused,
            )  # fmt: skip
            told = context.last - context_prior
            prior = self.to_own(told, numbers.scale[0], odds.own)
            own = propagate(
                self.own.links, syndrome, prior, numbers.own, own, min_sum=self.own.min_sum, fused=self.fused
            )
            if not stops:
                if k + 1 < exchanges:
                    context_prior = self.to_context(own.last - prior, numbers.scale[1], odds.context)
                continue
            now = self._explained(own, prior, syndrome)
            if in_full:
                now = now._replace(told=told, exchanges=torch.full_like(now.answer[0], k + 1))
            found = now if found is None else _updated(found, now, shots, compact=compact)
            if k + 1 == exchanges:
                break
            if compact:
                left = torch.nonzero(~now.explained)[:, 0]
                if not len(left):
                    break
                if len(left) < len(shots):
                    shots, syndrome, odds = shots[left], syndrome[:, left], odds.of(left)
                    own, context, prior = own.of(left), context.of(left), prior[:, left]
            context_prior = self.to_context(own.last - prior, numbers.scale[1], odds.context)
        if found is None:
            assert own is not None
            return Attempt(own.answer, prior, torch.zeros(batch, dtype=torch.bool, device=syndrome.device))
        return found

    def _numbers(self, leg: int | None, exchange: int) -> _Numbers:
        if leg is None:
            damping = self.damping[exchange if len(self.damping) > 1 else 0].reshape(1)
            own, context = (half.weights(exchange, damping, None) for half in (self.own, self.context))
            return _Numbers(own, context, self.scale[exchange])
        low, high = self.leg_memory[leg]
        memory = low + (high - low) * self.get_buffer("disorder")[leg]
        last = min(exchange, self.turbo.exchanges - 1)  # legs may be longer than what was learned
        damping, n_own = self.leg_damping[leg].reshape(1), self.own.links.n_faults
        return _Numbers(
            self.own.weights(last, damping, memory[:n_own]),
            self.context.weights(last, damping, memory[n_own:]),
            self.leg_scale[leg].expand(2),
        )

    def _explained(self, own: Propagated, prior: Tensor, syndrome: Tensor) -> Attempt:
        """The mean posterior of the exchange if its hard decision has the syndrome, or the last if that has."""
        mean, last = (
            has_syndrome(self.own.links, odds, syndrome, fused=self.fused) for odds in (own.answer, own.last)
        )
        answer = torch.where(last & ~mean, own.last, own.answer)
        return Attempt(answer, prior, mean | last)


class _Numbers(NamedTuple):
    own: Weights
    context: Weights
    scale: Tensor


class _Given(NamedTuple):
    """The odds of both directions; `of` some shots, which changes nothing where all shots share them."""

    own: Odds
    context: Odds

    def of(self, shots: Tensor) -> _Given:
        return _Given(*(each if each.probability.shape[1] == 1 else each.of(shots) for each in self))


def _updated(found: Attempt, now: Attempt, shots: Tensor, *, compact: bool) -> Attempt:
    """What is known of all shots, with news of some of them; a shot that was explained stays as it was."""
    if compact:
        return Attempt(
            found.answer.index_copy(1, shots, now.answer),
            found.prior.index_copy(1, shots, now.prior),
            found.explained.index_copy(0, shots, now.explained),
            _copied(found.told, 1, shots, now.told),
            _copied(found.exchanges, 0, shots, now.exchanges),
        )
    done = found.explained
    return Attempt(
        torch.where(done, found.answer, now.answer),
        torch.where(done, found.prior, now.prior),
        done | now.explained,
    )


def _copied(old: Tensor | None, axis: int, shots: Tensor, new: Tensor | None) -> Tensor | None:
    return None if old is None or new is None else old.index_copy(axis, shots, new)
