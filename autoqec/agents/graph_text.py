"""The fork graph as lines of a prompt, cut by rule when it is long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autoqec.agents import fences
from autoqec.search.ancestry import ancestors
from autoqec.search.proposal import RoundContext, Row, short_name

_RECENT = 6
_BEST = 6
_WORDS = ((160, 160), (160, 60), (160, 0), (60, 0), (0, 0))
"""Characters of the hypothesis for important rounds and for others, from roomy to tight."""


def graph_lines(context: RoundContext, *, limit: int) -> list[str]:
    """One line per round in at most `limit` tokens.

    Rounds on the front, their ancestors, the latest six and the best six are important. Where there is too little room,
    first the words of the others are cut, then the others are left out from the oldest on, then the words of the important
    ones are cut, then those are left out from the oldest on. What is left out is counted in the last line.
    """
    rows = [row for row in context.history if row.get("status") != "branch_manually_deleted"]
    important = _important(rows, context.pareto)
    order = [*(i for i in range(len(rows)) if i not in important), *sorted(important)]
    for for_important, for_others in _WORDS:
        lines = [
            _line(row, context, for_important if i in important else for_others) for i, row in enumerate(rows)
        ]
        steps = len(rows) - len(important) if for_important else len(rows)
        left_out = range(steps + 1) if for_others == 0 else range(1)
        for count in left_out:
            gone = set(order[:count])
            kept = [line for i, line in enumerate(lines) if i not in gone]
            if gone:
                kept.append(_left_out([rows[i] for i in sorted(gone)]))
            if fences.tokens("\n".join(kept)) <= limit:
                return kept
    return [_left_out(rows)]


def _important(rows: Sequence[Row], front: Sequence[Row]) -> set[int]:
    commits = {member.get("commit_sha") for member in front}
    by_branch = {row["branch"]: i for i, row in enumerate(rows) if row.get("branch")}
    on_front = [i for i, row in enumerate(rows) if row.get("commit_sha") and row["commit_sha"] in commits]
    above = ancestors(
        on_front, lambda at: [by_branch[name] for name in parents(rows[at]) if name in by_branch]
    )
    measured = sorted(
        (i for i, row in enumerate(rows) if row.get("delta_ler") is not None),
        key=lambda i: -rows[i]["delta_ler"],
    )
    return {*on_front} | above | set(range(len(rows))[-_RECENT:]) | set(measured[:_BEST])


def parents(row: Row) -> list[str]:
    fork = row.get("fork_from")
    return [] if fork is None else [fork] if isinstance(fork, str) else list(fork)


def _line(row: Row, context: RoundContext, words: int) -> str:
    branch = row.get("branch")
    gone = (
        branch is not None and context.branches and branch not in {known.name for known in context.branches}
    )
    front = row.get("commit_sha") is not None and any(
        m.get("commit_sha") == row["commit_sha"] for m in context.pareto
    )
    cells = [
        f"{short_name(branch) if branch else 'round ' + str(row.get('round'))} <- {' + '.join(map(short_name, parents(row))) or '-'}",
        f"{row.get('verdict') or row.get('status')}{' *front*' if front else ''}{' (branch gone)' if gone else ''}",
        gain(row),
    ]
    if row.get("n_params") is not None:
        cells.append(
            f"{_millions(row.get('flops_per_syndrome'))} {row['n_params']} params {round(row.get('train_wallclock_s') or 0)} s"
        )
    if row.get("over_budget"):
        cells.append("over budget")
    if row.get("status") != "ok" and row.get("status_reason"):
        cells.append(fences.one_line(str(row["status_reason"]), max(words, 40)))
    if words and row.get("hypothesis"):
        cells.append(fences.one_line(str(row["hypothesis"]), words))
    return " | ".join(cell for cell in cells if cell)


def gain(row: Mapping[str, Any]) -> str:
    """The delta with its interval; empty for a round without one."""
    if row.get("delta_ler") is None:
        return ""
    text = f"delta {row['delta_ler']:+.2g}"
    low, high = row.get("delta_ler_ci_low"), row.get("delta_ler_ci_high")
    if low is not None and high is not None:
        text += f" [{low:+.2g}, {high:+.2g}]"
    plain, this = row.get("ler_plain_classical"), row.get("ler_predecoder")
    return text + (f" ratio {plain / this:.2f}" if plain and this else "")


def _millions(flops: int | None) -> str:
    return "" if flops is None else f"{flops / 1e6:.2f} MFLOP"


def _left_out(rows: Sequence[Row]) -> str:
    counts: dict[str, int] = {}
    for row in rows:
        outcome = str(row.get("verdict") or row.get("status"))
        counts[outcome] = counts.get(outcome, 0) + 1
    deltas = [row["delta_ler"] for row in rows if row.get("delta_ler") is not None]
    best = f"; best delta {max(deltas):+.2g}" if deltas else ""
    return f"({len(rows)} rounds left out: {', '.join(f'{n} {outcome}' for outcome, n in sorted(counts.items()))}{best})"
