"""Bad values for every option and argument of every command, derived from its type."""

from __future__ import annotations

from collections.abc import Iterator

import click
from fuzz_player import Case
from fuzz_scene import Scene

from autoqec.commands import VERBS, main

Words = list[str]

NO_NUMBER = ("nan", "inf", "-inf", "1e400", "1" + "0" * 30, "1" * 5_000, "", "x")
"""Refused by every option that takes a number."""
ODD_NUMBER = ("-1", "0", "5e-324", "-0.0", "1e308", "1_0", "\uff11\uff10", "0x10", " 1")
"""Right for some options; each is taken as it is meant, or refused."""
STRINGS = ("", "a\nerror: b", "x" * 5_000, "half\udcff", "../../etc", "-", "a\0b", "\u202e", "1" * 5_000)
"""Refused, or taken as a name."""


def commands() -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command that does something, by the words that call it."""
    context = click.Context(main)
    for verb in VERBS:
        found = main.get_command(context, verb)
        assert found is not None
        if isinstance(found, click.Group):
            yield from (((verb, name), below) for name, below in sorted(found.commands.items()))
        else:
            yield (verb,), found


def good(scene: Scene) -> dict[tuple[str, ...], tuple[dict[str, str], Words]]:
    """By command: what it needs, argument or option by its name, and flags. All good but for the last thing that is looked at where
    the command would otherwise work for minutes, or write."""
    env, run, flight = str(scene.root / "env.yaml"), str(scene.run), str(scene.flight)
    config, no_round = str(scene.root / "config.yaml"), str(scene.root / "odd" / "folder")
    answer = str(scene.root / "odd" / "empty")
    step = {"run_dir": flight, "number": "2"}
    return {
        ("add-env",): ({"out": str(scene.root / "new.yaml"), "baselines": "none such"}, ["--no-input"]),
        ("baseline",): ({"envs": env, "decoders": "none such"}, []),
        ("card",): ({"round_dir": no_round}, []),
        ("cost",): ({"config_yaml": config, "env_name": env}, []),
        ("decode",): (
            {
                "dem_path": str(scene.root / "model.dem"),
                "in_path": str(scene.root / "shots.01"),
                "decoder_name": "pymatching",
                "out_path": "-",
            },
            [],
        ),
        ("diagnose",): ({"folder": str(scene.round)}, ["--json"]),
        ("doctor",): ({}, []),
        ("env", "list"): ({}, ["--json"]),
        ("env", "show"): ({"env": env}, ["--json"]),
        ("env", "validate"): ({"env": env}, ["--json"]),
        ("export",): ({"round_dir": str(scene.root / "real"), "env_name": "surface_d3_depol"}, []),
        ("fork-graph",): ({"run_dir": run}, []),
        ("install-skills",): ({"dest": str(scene.root / "odd" / "empty")}, []),
        ("machine-state",): ({}, ["--json"]),
        ("mcp",): ({"root": str(scene.root / "odd" / "empty")}, []),
        ("package-run",): ({"run_dir": flight}, []),
        ("pareto",): ({"run_dirs": run}, ["--json"]),
        **{
            ("plot", kind): ({"run_dirs": run, "out": str(scene.root / "figure.svg")}, [])
            for kind in ("forest", "hypervolume", "latency", "ler", "loss", "pareto", "stages")
        },
        ("plot", "calibration"): ({"folders": no_round, "out": str(scene.root / "figure.svg")}, []),
        ("power",): ({"ler": "0.01", "effect": "0.5"}, ["--json"]),
        ("reconcile",): ({"run_dir": run}, ["--dry-run", "--json"]),
        ("replay",): ({"round_dir": no_round}, ["--json"]),
        ("report",): ({"run_dir": run, "out": str(scene.root / "page.html")}, []),
        ("review",): ({"run_dir": run}, ["--json"]),
        ("run",): ({"env_yaml": env, "proposer": "none such"}, ["--json"]),
        ("run-round",): (
            {
                "env_yaml": env,
                "config_yaml": str(scene.root / "missing"),
                "round_dir": str(scene.root / "new"),
            },
            [],
        ),
        ("runs",): ({}, ["--json"]),
        ("serve",): ({"folder": str(scene.root), "host": "none such"}, []),
        ("schema",): ({}, []),
        ("step", "begin"): ({"env_yaml": env, "run_dir": run}, []),
        ("step", "abandon"): ({"run_dir": run, "number": "77", "reason": "no"}, []),
        ("step", "analyse"): ({**step, "answer": answer}, []),
        ("step", "code"): ({**step, "answer": answer}, []),
        ("step", "context"): ({"role": "ideator", "run_dir": run}, []),
        ("step", "end"): ({"run_dir": run}, []),
        ("step", "propose"): ({"run_dir": run, "answer": answer}, []),
        ("step", "record"): ({"run_dir": run, "number": "77"}, []),
        ("step", "run"): ({"run_dir": run, "number": "77"}, []),
        ("step", "verify"): ({"run_dir": run, "number": "77"}, []),
        ("verify",): ({"round_dir": no_round, "env_name": env}, []),
        ("watch",): ({"run_dir": run}, []),
        ("zoo", "get"): ({"name": "no/such", "folder": str(scene.root / "new")}, []),
        ("zoo", "list"): ({}, ["--json"]),
        ("zoo", "show"): ({"name": "no/such"}, ["--json"]),
        ("zoo", "verify"): ({"names": "no/such"}, ["--json"]),
        ("verify-package",): ({"archive": str(scene.root / "odd" / "empty")}, ["--no-evaluate"]),
    }


def line(
    path: tuple[str, ...], command: click.Command, given: dict[str, str], flags: Words
) -> tuple[str, ...]:
    """The command line; options first, so that an argument may begin with a dash."""
    options: Words = []
    arguments: Words = []
    for parameter in command.params:
        if parameter.name in given:
            value = given[parameter.name]
            if isinstance(parameter, click.Argument):
                arguments.append(value)
            else:
                options.append(f"{_name(parameter)}={value}")
    return (*path, *options, *flags, "--", *arguments)


def _name(parameter: click.Parameter) -> str:
    return max(parameter.opts, key=len)


def cases(scene: Scene, odd: dict[str, str]) -> Iterator[Case]:
    lines = good(scene)
    for path, command in commands():
        needed, flags = lines[path]
        number = 0
        for parameter in command.params:
            assert parameter.name is not None
            for value, codes, says in _values(parameter, odd):
                words = line(path, command, {**needed, parameter.name: value}, flags)
                number += 1
                leaves = (
                    ("/new", "/new/metrics.json") if path == ("run-round",) else ()
                )  # says why it was refused
                yield Case(words, codes, says, leaves, as_json=number % 2 == 0)


_ANY = frozenset({0, 1, 2, 3})
_REFUSED = frozenset({2})
_Value = tuple[str, frozenset[int], tuple[str, ...]]


def _values(parameter: click.Parameter, odd: dict[str, str]) -> Iterator[_Value]:
    names = (*parameter.opts, parameter.human_readable_name)
    kind = parameter.type
    if isinstance(parameter, click.Option) and parameter.is_flag:
        return
    if isinstance(kind, click.types.FloatParamType | click.types.IntParamType):
        yield from ((value, _REFUSED, names) for value in NO_NUMBER)
        yield from ((value, _ANY, ()) for value in ODD_NUMBER)
    elif isinstance(kind, click.Choice):
        yield from ((value, _REFUSED, names) for value in ("", "none such", "x" * 5_000, "half\udcff"))
    elif isinstance(kind, click.Path) or parameter.name in _PATHS:
        yield from ((value, _ANY, ()) for value in odd.values())
    else:
        yield from ((value, _ANY, ()) for value in (*STRINGS, *NO_NUMBER, *ODD_NUMBER))
    if not isinstance(kind, click.Choice) and parameter.name in _PATHS:
        yield from ((value, _ANY, ()) for value in STRINGS)


_PATHS = (
    "env",
    "envs",
    "env_yaml",
    "env_name",
    "in_path",
    "out_path",
    "diagram",
    "code_cwd",
    "dem",
    "source",
)
"""Paths among the options that are strings."""
