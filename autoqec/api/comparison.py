"""`autoqec.compare`: decoders on the same shots."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autoqec.api.frames import frame
from autoqec.decoders import baseline_tables
from autoqec.decoders.baseline_tables import Measured, Unit
from autoqec.decoders.baselines.registry import DecoderChoice, choose, unavailable
from autoqec.decoders.paired import Evaluator, PairedResult
from autoqec.decoders.protocol import DecoderFactory
from autoqec.decoders.reference_p import plain_backend
from autoqec.envs.environment import Environment
from autoqec.envs.load import load_env
from autoqec.errors import InputError
from autoqec.executors.registry import LOCAL, opened
from autoqec.finds.predecoder import Predecoder, load_predecoder
from autoqec.finds.zoo import is_zoo_name

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

Progress = Callable[[float, int, int], None]


@dataclass(frozen=True)
class Comparison:
    """Decoders on the same shots, at each p.

    results: by p, with a failure bit per decoder and shot, so that any two decoders can be compared. plain: the backend with the
    environment's fixed weights, which ratios refer to. decoders: those that ran. missing: name -> why a decoder did not run.
    against: a decoder that further ratios refer to.
    """

    env: Environment
    results: tuple[PairedResult, ...]
    plain: str
    decoders: tuple[DecoderFactory, ...]
    missing: dict[str, str]
    against: str | None = None

    @property
    def measured(self) -> Measured:
        return Measured(self.env, self.decoders, self.results)

    @property
    def level(self) -> float:
        """Of all intervals."""
        return self.measured.level

    @property
    def is_interrupted(self) -> bool:
        return any(result.interrupted for result in self.results)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One per p and decoder: failures, LER with its interval, ratio of the plain backend's LER to it (above 1: better), time."""
        return self.table()

    def table(self, per: Unit = "shot") -> list[dict[str, Any]]:
        """`rows`, with the LER per "round" of readout or per logical "qubit" beside that per shot."""
        measured = self.measured
        return [
            row
            for result in self.results
            for row in baseline_tables.rows(measured, result, self.plain, per, self.against)
        ]

    def to_pandas(self, per: Unit = "shot") -> pandas.DataFrame:
        """`table` as a data frame."""
        return frame(self.table(per))

    def to_csv(self) -> str:
        """As sinter writes it."""
        return baseline_tables.sinter_csv([self.measured])

    def plot(self, path: str | Path | None = None, per: Unit = "shot") -> Figure:
        """LER over p with intervals, one line per decoder; also written to `path`, if given."""
        return baseline_tables.plot_ler(
            self.env.spec.name, [self.measured], per, None if path is None else Path(path)
        )

    def __str__(self) -> str:
        other = self.against or self.plain
        ratio_key, low_key, high_key = (
            baseline_tables.RATIO if self.against is None else baseline_tables.AGAINST
        )
        lines = [f"{'p':>8}  {'decoder':<24}{'failures':>9} of shots    LER       ratio to {other}"]
        for row in self.rows:
            ratio = row.get(ratio_key)
            high = row.get(high_key)
            told = "-" if ratio is None else f"{ratio:.3f} ({row[low_key]:.3f} .. {high or float('inf'):.3f})"
            lines.append(
                f"{row['p']:>8g}  {row['decoder']:<24}{row['failures']:>9} of {row['shots']:<9}"
                f"{row['ler'] if row['ler'] is not None else float('nan'):<10.4g}{told}"
            )
        lines += [f"not run: {name}: {why}" for name, why in self.missing.items()]
        return "\n".join([*lines, *(f"warning: {text}" for text in self.env.warnings)])


def compare(
    env: str | Path | Environment,
    decoders: Iterable[str | Path | DecoderFactory] | None = None,
    *,
    p: float | Sequence[float] | None = None,
    shots: int = 20_000,
    max_errors: int | None = None,
    against: str | Path | DecoderFactory | None = None,
    executor: str | None = None,
    workers: int | None = None,
    reuse: bool = True,
    progress: Progress | None = None,
) -> Comparison:
    """Every decoder on the same shots, at each p.

    Args:
        env: an environment, the name of a builtin one, or its YAML file.
        decoders: names of baselines ("belief_matching", "bposd-10"), folders of rounds ("runs/r1"), "zoo:ENV/NAME", what `load_predecoder` returns.
            Default: the environment's baselines. The plain backend always takes part.
        p: one physical error rate or several. Default: the environment's sweep.
        shots: per p.
        max_errors: ends a p, in whole chunks of shots, when every decoder has so many failures.
        against: a decoder, written as in `decoders`, that the others are compared with as well, shot by shot; it takes part.
        executor: "local", "ray" for a cluster of this machine, or "ray:ADDRESS". The failures are the same. Default: local.
        workers: processes. Default: one per core.
        reuse: whether to take shots of the same decoders from earlier calls, and keep those of this one.
        progress: called with (p, shots done, shots wanted).

    Examples:
        >>> import autoqec
        >>> found = autoqec.compare("surface_d5_depol", ["belief_matching"], p=0.005, shots=2_000, workers=1)
        >>> [row["decoder"] for row in found.rows]
        ['pymatching', 'belief_matching']
        >>> found.rows[0]["failures"] > found.rows[1]["failures"]
        True
    """
    env = env if isinstance(env, Environment) else load_env(env)
    sweep = list(env.spec.noise.p) if p is None else [p] if isinstance(p, int | float) else list(p)
    env.check_sweep(sweep, where="p")
    wanted = list(env.spec.baseline_decoders if decoders is None else decoders)
    other = None if against is None else _other(env, against)
    chosen = _chosen(env, [*wanted, *([] if other is None else [other])])
    reasons = {
        choice.name: unavailable(choice, env.problem(sweep[0]))
        for choice in chosen
        if isinstance(choice, DecoderChoice)
    }
    if other is not None and (reason := reasons.get(other.name)) is not None:
        raise InputError(f"{other.name} cannot run here: {reason}", where="against")
    able = [choice for choice in chosen if reasons.get(choice.name) is None]
    results = []
    with (
        opened(executor or LOCAL) as where,
        Evaluator(env, executor=where, workers=workers, store=reuse, progress=progress) as evaluator,
    ):
        for value in sweep:
            results.append(evaluator.run(value, able, shots, max_errors=max_errors))
            if results[-1].interrupted:
                break
    missing = {name: reason for name, reason in reasons.items() if reason is not None}
    name = None if other is None else other.name
    return Comparison(env, tuple(results), plain_backend(env).name, tuple(able), missing, name)


def _other(env: Environment, against: str | Path | DecoderFactory) -> DecoderFactory:
    """The one decoder that the others are compared with."""
    found = _named(env, against, where="against")
    if len(found) > 1:
        names = ", ".join(each.name for each in found)
        raise InputError(f"{against} is several decoders", where="against", hint=f"give one of {names}")
    return found[0]


def _named(
    env: Environment, decoder: str | Path | DecoderFactory, *, where: str = "decoders"
) -> Sequence[DecoderFactory]:
    if isinstance(decoder, Path) or (
        isinstance(decoder, str) and (os.sep in decoder or is_zoo_name(decoder))
    ):
        return [load_predecoder(decoder)]
    if isinstance(decoder, str):
        return choose([decoder.strip()], env.spec.eval_protocol.osd_orders_reported, where=where)
    return [decoder]


def _chosen(env: Environment, decoders: Iterable[str | Path | DecoderFactory]) -> list[DecoderFactory]:
    """The plain backend first, then each once, in order."""
    chosen: dict[str, DecoderFactory] = {plain_backend(env).name: plain_backend(env)}
    for each in decoders:
        for choice in _named(env, each):
            if isinstance(choice, Predecoder) and choice.env.content_hash != env.content_hash:
                raise InputError(
                    f"{choice.name} was trained on {choice.env.spec.name}, or on another version of {env.spec.name}",
                    where=choice.checkpoint,
                    hint="compare it on its own environment",
                )
            _add(chosen, choice)
    return list(chosen.values())


def _add(chosen: dict[str, DecoderFactory], choice: DecoderFactory) -> None:
    if chosen.setdefault(choice.name, choice) != choice:
        raise InputError(
            f"two decoders are called {choice.name}",
            where="decoders",
            hint="name one of them: load_predecoder(..., name=...)",
        )
