"""`autoqec add-env`: compose an environment YAML, by prompts or by flags."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from autoqec.commands.options import Count, Number, OutFile
from autoqec.commands.output import print_warnings
from autoqec.envs.schema import CodeSpec, ConstraintsSpec, EnvSpec, NoiseSpec
from autoqec.errors import AutoQECError, InputError

if TYPE_CHECKING:
    from autoqec.envs.problem import DecodingProblem

CODE_TYPES: tuple[str, ...] = get_args(CodeSpec.model_fields["type"].annotation)
NOISE_TYPES: tuple[str, ...] = get_args(NoiseSpec.model_fields["type"].annotation)
BACKENDS: tuple[str, ...] = get_args(EnvSpec.model_fields["classical_backend"].annotation)
_EXAMPLES = {
    "stim_circuit": "surface_code:rotated_memory_z?distance=5&rounds=5",
    "parity_check_matrix": "bb72",
    "tanner_graph": "code.json",
}
_BASELINES = {"mwpm": ("pymatching", "pymatching_correlated", "belief_matching"), "osd": ("bposd", "bplsd")}


@click.command()
@click.option("--out", required=True, type=OutFile(), help="The YAML file to write.")
@click.option("--name", help="Name of the environment. Default: the file's name.")
@click.option("--code-type", type=click.Choice(CODE_TYPES))
@click.option("--source", help="A file, relative to the YAML, or a builtin code such as bb72.")
@click.option(
    "--readout-rounds", type=Count(min=1), help="Rounds of readout, for codes given by their checks."
)
@click.option("--noise-type", type=click.Choice(NOISE_TYPES))
@click.option("--p", "p_text", help="Comma-separated physical error rates.")
@click.option("--eta", type=Number(), help="Bias of biased noise.")
@click.option("--dem", help="A .dem file: the noise, and without --source the code, too.")
@click.option("--level", type=click.Choice(("code_capacity", "phenomenological", "circuit")))
@click.option("--x-z-decoding", type=click.Choice(("circuit", "x_only")))
@click.option(
    "--backend", type=click.Choice(BACKENDS), help="Default: mwpm where the noise is graph-like, else osd."
)
@click.option("--baselines", help="Comma-separated baseline decoders.")
@click.option("--flops-budget", type=Count(min=1))
@click.option("--param-budget", type=Count(min=1))
@click.option("--target-ler", type=Number())
@click.option("--target-p", type=Number())
@click.option("--no-input", is_flag=True, help="Never prompt: what has no flag takes its default.")
@click.option("--force", is_flag=True, help="Overwrite the file if it exists.")
def command(out: Path, no_input: bool, force: bool, **flags: Any) -> None:
    """Compose an environment YAML: prompts with defaults for what is not given by flags.

    The decoding problem is built at every p before anything is written.
    """
    from autoqec.envs.environment import Environment
    from autoqec.io import atomic
    from autoqec.io.strict_yaml import dump_yaml

    if out.suffix not in (".yaml", ".yml"):
        raise InputError(f"{out.name!r} is not a YAML file name", where="--out", hint="end it in .yaml")
    if out.exists() and not force:
        raise InputError(
            f"{out} exists", where="--out", hint="choose another name, or overwrite it with --force"
        )
    root = out.resolve().parent
    composed = _Composer(flags, root, ask=not no_input).compose(default_name=out.stem)
    env = Environment(composed, root=root, origin=str(out))
    sizes = []
    for p in composed.noise.p:
        problem = env.problem(p)
        sizes.append(f"p={p:g}: {problem.n_checks} detectors x {problem.n_faults} faults")
    atomic.write_text(out, dump_yaml(composed))
    print_warnings(env)
    click.echo(f"Wrote {out} ({'; '.join(sizes)})")
    click.echo(f"Next: autoqec baseline {out}")


class _Composer:
    """Asks for one field at a time; an answer that cannot stand is refused where it is given."""

    def __init__(self, flags: dict[str, Any], root: Path, *, ask: bool) -> None:
        self._flags = flags
        self._root = root
        self._ask = ask

    def compose(self, default_name: str) -> EnvSpec:
        data: dict[str, Any] = {"name": self._field("name", "Name", default_name)}
        code_type = self._field("code_type", "Code type", "stim_circuit", choices=CODE_TYPES)
        dem = self._flags["dem"]
        usual = "depolarizing" if dem is None else "custom_dem"
        noise_type = self._field("noise_type", "Noise type", usual, choices=NOISE_TYPES)
        noise: dict[str, Any] = {"type": noise_type}
        sweep = "0.001,0.005,0.01" if noise_type != "custom_dem" else "0.01"
        noise["p"] = self._field("p_text", "Physical error rates p, comma-separated", sweep, parse=_sweep)
        if noise_type == "biased":
            noise["eta"] = self._field("eta", "Bias eta = p_Z / (p_X + p_Y)", 10.0, parse=float)
        if noise_type == "custom_dem":
            noise["dem"] = self._field("dem", "Detector error model file", "model.dem")
        for key in ("eta", "dem", "level"):
            if self._flags[key] is not None:
                noise[key] = self._flags[key]
        code = {"type": code_type}
        if self._flags["readout_rounds"] is not None:
            code["rounds"] = self._flags["readout_rounds"]
        data |= {"noise": noise, "constraints": {}, "baseline_decoders": [], "classical_backend": "osd"}
        if self._flags["x_z_decoding"] is not None:
            data["eval_protocol"] = {"x_z_decoding": self._flags["x_z_decoding"]}

        def with_source(source: str) -> str:
            self._try(data | {"code": {**code, "source": source}})
            return source

        source = self._field(
            "source", "Source (file or builtin code)", dem or _EXAMPLES[code_type], parse=with_source
        )
        data["code"] = {**code, "source": source}

        def with_backend(backend: str) -> str:
            self._try(data | {"classical_backend": backend})
            return backend

        data["classical_backend"] = self._field(
            "backend", "Classical backend", self._default_backend(data), choices=BACKENDS, parse=with_backend
        )
        data["baseline_decoders"] = self._field(
            "baselines",
            "Baseline decoders, comma-separated",
            ",".join(_BASELINES[data["classical_backend"]]),
            parse=_decoders,
        )
        budgets = (
            ("flops_budget", "latency_flops_budget", "FLOPs budget per syndrome", int),
            ("param_budget", "param_budget", "Parameter budget", int),
            ("target_ler", "target_ler", "Target LER", float),
            ("target_p", "target_p", "Target p", float),
        )
        defaults = ConstraintsSpec()
        for flag, field, label, kind in budgets:
            data["constraints"][field] = self._field(flag, label, getattr(defaults, field), parse=kind)
        return self._validate(data)

    def _field(
        self,
        flag: str,
        label: str,
        default: Any,
        *,
        choices: tuple[str, ...] | None = None,
        parse: Callable[[Any], Any] = str,
    ) -> Any:
        if self._flags[flag] is not None or not self._ask:
            given = self._flags[flag] if self._flags[flag] is not None else default
            try:
                return parse(given)
            except ValueError as error:
                raise InputError(
                    f"{str(given)[:80]!r}: {str(error)[:200]}",
                    where=f"--{flag.removesuffix('_text').replace('_', '-')}",
                ) from error

        def checked(text: str) -> Any:
            try:
                return parse(click.Choice(choices).convert(text, None, None) if choices else text)
            except (ValueError, AutoQECError) as error:
                raise click.BadParameter(str(error)) from error

        shown = f"{label} ({', '.join(choices)})" if choices else label
        return click.prompt(shown, default=default, value_proc=checked, err=True)

    def _validate(self, data: dict[str, Any]) -> EnvSpec:
        from autoqec.io.validate import validate_model

        return validate_model(data, EnvSpec, where="environment")

    def _try(self, data: dict[str, Any]) -> DecodingProblem:
        from autoqec.envs.environment import Environment

        spec = self._validate(data)
        return Environment(spec, root=self._root).problem(spec.noise.p[0])

    def _default_backend(self, data: dict[str, Any]) -> str:
        try:
            problem = self._try(data | {"classical_backend": "mwpm"})
        except InputError:
            return "osd"
        # The parts that an error model suggests for its errors are its author's, who knows the bases of its detectors.
        graph_like = data["noise"]["type"] == "custom_dem" or problem.is_matchable
        return "mwpm" if graph_like else "osd"


def _sweep(text: str) -> list[float]:
    from autoqec.io.validate import validate_model

    numbers = [float(part) for part in text.split(",")]
    return validate_model({"type": "depolarizing", "p": numbers}, NoiseSpec, where="--p").p


def _decoders(text: str) -> list[str]:
    from autoqec.decoders.baselines.registry import choose

    names = [name.strip() for name in text.split(",") if name.strip()]
    choose(names, (0,), where="--baselines")
    return names
