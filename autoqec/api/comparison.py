"""`autoqec.compare`: decoders on the same shots."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autoqec.api.frames import frame
from autoqec.api.line_up import Given, LineUp, line_up
from autoqec.decoders import baseline_tables
from autoqec.decoders.baseline_tables import Measured, Unit
from autoqec.decoders.paired import Evaluator, PairedResult
from autoqec.decoders.protocol import DecoderFactory
from autoqec.decoders.reference_p import plain_backend
from autoqec.envs.environment import Environment
from autoqec.envs.load import load_env
from autoqec.executors.registry import LOCAL, opened

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

Progress = Callable[[float, int, int], None]


@dataclass(frozen=True)
class Comparison:
    """Decoders on the same shots, at each p.

    results: by p, with a failure bit per decoder and shot, so that any two decoders can be compared. plain: the backend with the
    environment's fixed weights. decoders: those that ran. missing: name -> why a decoder did not run. against: a decoder of the
    caller's choice. Rows have the ratios of both to each decoder, and a table that is printed has those of the caller's choice.
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
    decoders: Iterable[Given] | None = None,
    *,
    p: float | Sequence[float] | None = None,
    shots: int = 20_000,
    max_errors: int | None = None,
    against: Given | None = None,
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
        against: one more decoder, written as in `decoders`. The ratio of its LER to that of every other one is printed in place of the plain
            backend's, and rows have both.
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
    return measure(
        line_up(env, decoders, p=p, against=against),
        shots=shots,
        max_errors=max_errors,
        executor=executor,
        workers=workers,
        reuse=reuse,
        progress=progress,
    )


def measure(
    lined_up: LineUp,
    *,
    shots: int,
    max_errors: int | None = None,
    executor: str | None = None,
    workers: int | None = None,
    reuse: bool = True,
    progress: Progress | None = None,
) -> Comparison:
    """`compare`, of decoders that were looked at before."""
    env = lined_up.env
    results = []
    with (
        opened(executor or LOCAL) as where,
        Evaluator(env, executor=where, workers=workers, store=reuse, progress=progress) as evaluator,
    ):
        for value in lined_up.sweep:
            results.append(evaluator.run(value, lined_up.able, shots, max_errors=max_errors))
            if results[-1].interrupted:
                break
    return Comparison(
        env,
        tuple(results),
        plain_backend(env).name,
        lined_up.able,
        lined_up.missing,
        lined_up.against,
    )
