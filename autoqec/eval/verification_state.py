"""One verification under way: what the guards look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autoqec.decoders.baselines.registry import DecoderChoice
from autoqec.envs.environment import Environment
from autoqec.envs.problem import DecodingProblem
from autoqec.eval.ablations import REAL
from autoqec.eval.bundles import Bundle
from autoqec.eval.options import VerifyOptions
from autoqec.eval.secret import Secret
from autoqec.eval.subject import Subject
from autoqec.eval.tally import Tally
from autoqec.eval.tasks import Scored, Where
from autoqec.stats.intervals import mcnemar_one_sided
from autoqec.stats.sequential import Evidence
from autoqec.stats.table import PairedTable

LEVEL = 0.001
"""Of the guards' own comparisons, each of which could otherwise condemn an honest model by chance."""


@dataclass(frozen=True)
class Estimated:
    """tally: of the estimate's shots. again: shots of the main test that the same processes were asked among them."""

    tally: Tally
    again: tuple[Scored, ...]


@dataclass(frozen=True, eq=False)
class VerificationState:
    """One subject with its environment, shots and scores.

    key: names the subject's models among those of all subjects of this verification. problems: built afresh, by p.
    evidence: of the confirmation at the reference p. longer: the environment with more rounds, where there is one. estimated: None before the
    estimate, which a verified subject alone has.
    """

    key: str
    subject: Subject
    env: Environment
    options: VerifyOptions
    secret: Secret
    bundle: Bundle
    reference_p: float
    plain: DecoderChoice
    problems: Mapping[float, DecodingProblem]
    tally: Tally
    evidence: Evidence
    longer: Environment | None
    ablation_shots: int
    estimated: Estimated | None = None

    def model(self, form: str = REAL) -> str:
        """The name of one of the subject's models, in the worker processes and the tally."""
        return f"{self.key}/{form}"

    def where(self, p: float) -> Where:
        return Where(repr(p), *self.bundle.files(p))

    def against_plain(self, p: float, form: str = REAL, shots: int | None = None) -> PairedTable:
        return self.tally.table(p, self.plain.name, self.model(form), shots)

    def forms(self, first: str, second: str) -> PairedTable:
        """Two of the subject's forms on the ablation's shots: a gain is the second's."""
        return self.tally.table(self.reference_p, self.model(first), self.model(second), self.ablation_shots)


def is_better(table: PairedTable, level: float = LEVEL) -> bool:
    """Whether the candidate of a table is significantly better than its baseline."""
    return mcnemar_one_sided(table.b, table.c) <= level


def is_worse(table: PairedTable, level: float = LEVEL) -> bool:
    return mcnemar_one_sided(table.c, table.b) <= level
