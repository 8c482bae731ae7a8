"""Model cards, of verified rounds and of entries of the zoo: what it is, what it was verified on, what it costs, where it ends, how to load
it and make it again."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.envs.environment import Environment
from autoqec.envs.load import load_env
from autoqec.errors import InputError
from autoqec.eval.latency import one_shot
from autoqec.eval.schema import BaselineRow, PairedFigures, PairedRow, VerifyReport
from autoqec.finds.zoo import ZooEntry
from autoqec.io.validate import load_model
from autoqec.layout import ZOO, EntryDir, RoundDir
from autoqec.report.reading import quote
from autoqec.report.review.rounds import Reviewed
from autoqec.report.run_view import RunView, config_of, options_of, parents_of, view_run


def card_of(round_dir: Path) -> str:
    """
    Raises:
        InputError: no report of this machine's verifier says that the round is VERIFIED.
    """
    folder = round_dir.resolve()
    view = view_run(folder.parent)
    number = folder.name.removeprefix("round_")
    one = view.round(int(number)) if number.isdecimal() and len(number) < 10 else None
    if one is None or one.report is None or one.report.verdict != "VERIFIED":
        reason = (
            "is not a round of a run" if one is None else one.not_backed or f"is {one.verdict or one.status}"
        )
        raise InputError(
            f"only a verified round has a model card: it {reason}",
            where=str(round_dir),
            hint="autoqec verify verifies a round",
        )
    return model_card(view, one, one.report)


def cards(view: RunView) -> dict[str, str]:
    """Of all verified rounds, by file name."""
    return {
        f"{RoundDir(f'round_{one.number}').path}.md": model_card(view, one, report)
        for one, report in view.verified
    }


def model_card(view: RunView, one: Reviewed, report: VerifyReport) -> str:
    sections = (
        [f"# Predecoder: {_safe(view.run_id)}, round {one.number}"],
        _what(one),
        _where(view.env_name, view.env, report.env_hash),
        figures(report),
        _confidence(report),
        cost_lines(report),
        _limits(report),
        _use(view, one, report),
        _again(view, one),
    )
    return _joined(sections)


def entry_card(entry: ZooEntry) -> str:
    """Of an entry of the zoo, also of one that is not verified: its figures are then those of its own validation, and called so."""
    config = load_model(EntryDir(entry.path).config, PredecoderDSL)
    env, report = load_env(entry.env), entry.report if entry.is_verified else None
    told = "" if entry.report is None else f": its report says {entry.report.verdict}"
    warning = f"**Not verified**{told}. The figures are those of its own validation. `autoqec zoo verify {entry.name}` measures on fresh shots."
    measured: tuple[Iterable[str], ...] = (
        (_validated(entry),)
        if report is None
        else (figures(report), _confidence(report), cost_lines(report), _limits(report))
    )
    sections = (
        [f"# Predecoder: {entry.name}", *([] if entry.is_verified else ["", warning])],
        ["## What it is\n", f"- Kind: {config.type}.", *_options(options_of(config))],
        _where(entry.env, env, env.content_hash, is_verified=entry.is_verified),
        *measured,
        _loading(f"{ZOO}{entry.name}", entry.metrics.checkpoint_sha256),
        _made(entry),
    )
    return _joined(sections)


def _joined(sections: Iterable[Iterable[str]]) -> str:
    return "\n\n".join("\n".join(section) for section in map(list, sections) if section) + "\n"


def _validated(entry: ZooEntry) -> Iterator[str]:
    found = entry.metrics
    yield "## Figures of its validation\n"
    yield f"- {found.flops_per_syndrome} FLOPs per syndrome in the mean, {found.n_params} parameters.\n"
    yield "| p | shots | compared with | its LER | this LER | difference | ratio |\n|---|---|---|---|---|---|---|"
    others = [row for row in found.baselines or () if row not in found.per_p]
    for row in (*found.per_p, *others):
        delta = f"{_n(row['delta'])} ({_range((row['delta_low'], row['delta_high']))})"
        ratio = f"{_n(row['ratio'])} ({_range((row['ratio_low'], row['ratio_high']))})"
        yield (
            f"| {row['p']:g} | {row['shots']} | {_safe(row['plain'])} | {_n(row['ler_plain'])} | {_n(row['ler_predecoder'])} "
            f"| {delta} | {ratio} |"
        )


def _made(entry: ZooEntry) -> Iterator[str]:
    yield "## How it was made\n"
    yield "```"
    yield from entry.provenance.commands
    yield "```\n"
    yield f"Seeds: {', '.join(map(str, entry.provenance.seeds))}. Devices: {'; '.join(map(_safe, entry.provenance.devices))}."
    if entry.provenance.notes is not None:
        yield f"\n{_safe(entry.provenance.notes)}"


def _safe(text: object) -> str:
    """Text of a run inside Markdown: no tags, no cells, no code."""
    told = quote(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return told.replace("|", "\\|").replace("`", "'").replace("[", "\\[")


def _what(one: Reviewed) -> Iterator[str]:
    yield "## What it is\n"
    yield f"- Kind: {_safe(one.family or 'unknown')}."
    yield f"- Hypothesis: {_safe(one.hypothesis or 'none')}"
    yield f"- Parents: {', '.join(map(_safe, parents_of(one))) or 'unknown'}."
    yield f"- Commit: {_safe(one.row.get('commit_sha') or 'unknown')}, branch {_safe(one.row.get('branch') or 'unknown')}."
    yield from _options(config_of(one))


def _options(options: Mapping[str, str]) -> Iterator[str]:
    if options:
        yield "\n| option | value |\n|---|---|"
        yield from (f"| {_safe(option)} | {_safe(value)} |" for option, value in options.items())


def _where(
    name: str, env: Environment | None, env_hash: str | None, *, is_verified: bool = True
) -> Iterator[str]:
    yield "## For which code and noise\n"
    yield f"- Environment: {_safe(name)}" + (
        "." if env_hash is None else f", content hash {_safe(env_hash)}."
    )
    if env is not None:
        spec = env.spec
        yield f"- Code {_safe(spec.code.source)}, noise {_safe(spec.noise.type)}, p = {', '.join(f'{p:g}' for p in spec.noise.p)}."
        yield f"- It stands before the {_safe(spec.classical_backend)} backend" + (
            ", and was verified with it only." if is_verified else "."
        )


def figures(report: VerifyReport) -> Iterator[str]:
    head = report.headline
    about = (
        "that selected nothing"
        if head.source == "estimate"
        else "of its test, which was stopped when its gain was large"
    )
    at = "" if report.reference_p is None else f", at p = {report.reference_p:g}"
    yield f"## Verified figures\n\n{head.shots} shots {about}{at}."
    yield "Ratio: LER of the other decoder over that of this one, above 1 is better.\n"
    yield "| compared with | its LER | this LER | difference | ratio |\n|---|---|---|---|---|"
    found = report.estimate
    if found is None:
        yield f"| {_safe(report.baseline)} | {_n(head.ler_baseline)} | {_n(head.ler_candidate)} | {_n(head.delta)} ({_range(head.delta_ci)}) | {_n(head.ratio)} |"
    else:
        untrained = [] if found.untrained is None else [(found.untrained, "the same, untrained")]
        for row, name in [
            (found, found.baseline),
            *((row, row.baseline) for row in found.classical),
            *untrained,
        ]:
            yield _row(row, name)
    yield f"\nVerdict: {report.verdict}. {_safe(report.notes)}"
    yield "\nAt each p, on shots of the test; difference: LER of the other decoder less that of this one, on the same shots:\n"
    yield "| p | decoder | shots | LER | difference |\n|---|---|---|---|---|"
    for paired in report.per_p:
        yield f"| {paired.p:g} | this one | {paired.shots} | {_rate(paired.ler_candidate, paired.ler_candidate_ci)} | |"
        yield _at(
            paired.p, paired.baseline, paired.shots, paired.ler_baseline, paired.ler_baseline_ci, paired
        )
        for other in (each for each in report.baselines if each.p == paired.p and not each.is_candidate):
            if other.ler is not None and other.ler_ci is not None:
                yield _at(other.p, other.name, other.shots, other.ler, other.ler_ci, other)


def _at(
    p: float, name: str, shots: int, ler: float, ler_ci: tuple[float, float], row: PairedRow | BaselineRow
) -> str:
    return f"| {p:g} | {_safe(name)} | {shots} | {_rate(ler, ler_ci)} | {_n(row.delta)} ({_range(row.delta_ci)}) |"


def _row(row: PairedFigures, name: str) -> str:
    ratio = f"{_n(row.ratio)} ({_range(row.ratio_ci)})"
    return f"| {_safe(name)} | {_n(row.ler_baseline)} | {_n(row.ler_candidate)} | {_n(row.delta)} ({_range(row.delta_ci)}) | {ratio} |"


def _confidence(report: VerifyReport) -> Iterator[str]:
    rows = report.calibration
    if not rows:
        return
    yield "## Confidence\n"
    yield "How many failures its log-odds stand for, as they are and after a scale and an offset that other shots gave.\n"
    yield "| p | shots of | shots | failures | expected | after the map | map |\n|---|---|---|---|---|---|---|"
    for row in rows:
        fitted = "-" if row.scale is None else f"{_n(row.scale)} m + {_n(row.offset)}"
        seen = f"{row.failures} ({_range(row.failures_ci)})"
        yield (
            f"| {row.p:g} | {row.source} | {row.shots} | {seen} | {_n(row.expected)} | {_n(row.mapped)} | {fitted} |"
        )
    for row in (row for row in rows if row.p == report.reference_p):
        yield f"\nThe least sure shots discarded, at p = {row.p:g}:\n"
        yield "| share | log-odds up to | LER of the others | times lower |\n|---|---|---|---|"
        for kept in row.kept:
            lower = f"{_n(kept.factor)} ({_range(kept.factor_ci)})"
            yield f"| {kept.share:.1%} | {_n(kept.below)} | {_rate(kept.ler, kept.ler_ci)} | {lower} |"


def cost_lines(report: VerifyReport) -> Iterator[str]:
    cost, found = report.cost, report.estimate
    if cost is None:
        return
    yield "## Cost\n"
    yield f"- {_n(cost.flops_per_syndrome)} FLOPs per syndrome in the mean, {cost.n_params} parameters, {cost.n_bytes} bytes."
    if found is not None and found.us_per_shot is not None:
        yield f"- {found.us_per_shot:.3g} us per shot with its backend, in batches, on the machine that verified it."
    alone = one_shot(cost)
    if alone.p50 is not None and alone.p99 is not None:
        slowest = "" if alone.p999 is None else f", 99.9% {alone.p999:.3g} us"
        yield f"- One shot at a time, the {alone.of}: median {alone.p50:.3g} us, 99% {alone.p99:.3g} us{slowest}."
    if (stages := cost.cascade) is not None:
        for row in stages.per_p:
            later = ", ".join(f"{100 * share:.3g}%" for share in row.shares[1:])
            yield f"- At p = {row.p:g} {later} of the shots reach the later stages: {row.flops_per_syndrome} FLOPs in the mean."
        yield f"- A shot that reaches all stages takes {stages.worst_flops} FLOPs."
    yield from (f"- Over budget: {_safe(text)}" for text in cost.over_budget)


def _limits(report: VerifyReport) -> Iterator[str]:
    yield "## Limits\n"
    yield "- Verified on simulated shots of this code and noise, at the error rates above; other noise was not measured."
    yield from (
        f"- Guard {_safe(guard.name)} is not ok: {_safe(guard.text)}"
        for guard in report.guards
        if guard.ok is False
    )
    found = report.estimate
    if found is not None:
        level = [row.baseline for row in found.classical if row.delta_ci[0] <= 0]
        yield from (f"- It is not shown to beat {_safe(name)}." for name in level)
        if found.untrained is not None and found.untrained.delta_ci[0] <= 0:
            yield "- It is not shown that its weights add anything to the untrained model."
    if report.target is not None:
        yield f"- Target: {_safe(report.target.text)}."


def _use(view: RunView, one: Reviewed, report: VerifyReport) -> Iterator[str]:
    yield from _loading(
        f"{view.run_id}/round_{one.number}", report.checkpoint_sha256, "In the folder that holds `runs/`:\n"
    )


def _loading(name: str, sha256: str | None, *place: str) -> Iterator[str]:
    yield "## How to load it\n"
    yield from place
    yield f"```python\nimport autoqec\n\nfind = autoqec.load_predecoder({json.dumps(name)})\nshots = find.env.sample(find.p, 1000)"
    yield "predictions = find.decode(shots.detectors)\n```\n"
    yield f"```\nautoqec decode --predecoder {shlex.quote(name)} --in shots.b8 --in-format b8 --out obs.01"
    yield f"autoqec export {shlex.quote(name)} --onnx predecoder.onnx\n```"
    if sha256:
        yield f"\nSHA-256 of its checkpoint: {_safe(sha256)}"


def _again(view: RunView, one: Reviewed) -> Iterator[str]:
    yield "## How to reproduce it\n"
    yield "```"
    yield from reproduction(view, one)
    yield "```"


def reproduction(view: RunView, one: Reviewed) -> Sequence[str]:
    """The commands that train the round again, and that check its claims on another machine."""
    name = f"{view.run_id}/round_{one.number}"
    lines = [f"autoqec replay {shlex.quote(name)}"]
    if one.report is not None:
        run, archive = shlex.quote(view.run_id), shlex.quote(f"{view.run_id}.tar.gz")
        lines += [f"autoqec package-run {run}", f"autoqec verify-package {archive}"]
    return lines


def _n(value: float | None) -> str:
    return "-" if value is None else str(value) if isinstance(value, int) else f"{value:.4g}"


def _range(bounds: Iterable[float | None] | None) -> str:
    low, high = bounds or (None, None)
    return f"{_n(low)} .. {'inf' if high is None and low is not None else _n(high)}"


def _rate(ler: float, interval: tuple[float, float]) -> str:
    return f"below {interval[1]:.2g} (no failure)" if ler == 0 else f"{ler:.4g} ({_range(interval)})"
