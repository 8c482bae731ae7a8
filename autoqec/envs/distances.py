"""The same environment at other code distances, and how many readout rounds a shot of one has."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction

from autoqec.envs.environment import Environment
from autoqec.envs.schema import EnvSpec
from autoqec.errors import InputError
from autoqec.io.hashing import sha256_json
from autoqec.io.validate import validate_model

_DISTANCE = re.compile(r"(?<=[?&(])distance=([0-9]{1,4})(?![0-9])")
_ROUNDS = re.compile(r"(?<=[?&(])rounds=([0-9]{1,7})(?![0-9])")


def distance_of(env: Environment) -> int | None:
    """What `distance=` in the environment's source says; None where it says nothing, or several things."""
    found = {int(text) for text in _DISTANCE.findall(env.spec.code.source)}
    return found.pop() if len(found) == 1 else None


def at_distance(env: Environment, distance: int, *, where: str) -> Environment:
    """The environment with `distance` in its source. Rounds that it fixes keep their ratio to the distance."""
    before = distance_of(env)
    if before is None:
        raise InputError(
            f"the source {env.spec.code.source!r} of {env.spec.name} has no distance= to change",
            where=where,
            hint="give an environment such as surface_d5_depol, or one file per distance",
        )
    if distance == before:
        return env
    source = _DISTANCE.sub(f"distance={distance}", env.spec.code.source)
    source = _ROUNDS.sub(lambda found: f"rounds={_scaled(int(found[1]), before, distance, where)}", source)
    data = env.spec.model_dump(mode="json")
    data["code"]["source"] = source
    if env.spec.code.rounds is not None:
        data["code"]["rounds"] = _scaled(env.spec.code.rounds, before, distance, where)
    named = re.sub(rf"(?<![a-z0-9])d{before}(?![0-9])", f"d{distance}", env.spec.name)
    data["name"] = named if named != env.spec.name else f"{env.spec.name}_d{distance}"
    spec = validate_model(data, EnvSpec, where=f"{env.spec.name} at distance {distance}")
    return replace(env, spec=spec, origin=f"{env.origin} at distance {distance}", file=None)


def family_of(env: Environment) -> str:
    """What environments have in common that differ in their distance alone, with rounds in proportion."""
    code, distance = env.spec.code, distance_of(env) or 1
    rounds = [*_ROUNDS.findall(code.source), *([] if code.rounds is None else [code.rounds])]
    source = _ROUNDS.sub("", _DISTANCE.sub("", code.source))
    noise = env.spec.noise.model_dump(mode="json", exclude={"p", "reference_p", "seed_policy"})
    per_distance = [str(Fraction(int(number), distance)) for number in rounds]
    protocol = env.spec.eval_protocol
    return sha256_json(
        [
            source,
            per_distance,
            code.type,
            code.memory_basis,
            noise,
            env.spec.classical_backend,
            protocol.x_z_decoding,
        ]
    )


def readout_rounds(env: Environment) -> int | None:
    """Rounds of readout in a shot, as `env show` lists them; 1 with perfect readout; None where only the file knows."""
    found = env.source.facts.get("rounds")
    return found if isinstance(found, int) else None


def _scaled(rounds: int, before: int, distance: int, where: str) -> int:
    if rounds * distance % before:
        raise InputError(
            f"{rounds} rounds at distance {before} are not a whole number of rounds at distance {distance}",
            where=where,
            hint="choose distances that divide evenly, or one file per distance",
        )
    return rounds * distance // before
