"""The recipes for clusters: what a shell, the command line and KubeRay would say about them, without a cluster."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any, Literal

import click
import pytest
import yaml
from pydantic import BaseModel, ConfigDict, Field

from autoqec.commands import main

ROOT = Path(__file__).parents[2]
SLURM, KUBERNETES = ROOT / "recipes" / "slurm.sbatch", ROOT / "recipes" / "rayjob.yaml"


def options_of(words: list[str]) -> dict[str, Any]:
    """As `autoqec run` takes them; unknown ones are an error."""
    command = main.get_command(click.Context(main), "run")
    assert command is not None
    return command.make_context("run", list(words)).params


def test_the_sbatch_script_is_good_shell() -> None:
    subprocess.run(["bash", "-n", str(SLURM)], check=True)
    if shutil.which("shellcheck"):
        subprocess.run(["shellcheck", str(SLURM)], check=True)
    asked = dict(re.findall(r"^#SBATCH --([a-z-]+)=(\S+)$", SLURM.read_text(), flags=re.MULTILINE))
    assert asked["ntasks-per-node"] == "1"  # each task starts the Ray of its node
    assert {"nodes", "cpus-per-task", "gpus-per-node", "time"} <= asked.keys()


@pytest.mark.parametrize(("is_there", "which"), [(False, "run_id"), (True, "resume")])
def test_the_sbatch_script_starts_a_run_and_resumes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool, which: str
) -> None:
    """It is run with a scheduler's programs that only note what they are asked."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in (("scontrol", "printf 'node-a\\nnode-b\\n'"), ("srun", 'printf "%s\\n" "$@" >asked')):
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    if is_there:
        (tmp_path / "runs" / "campaign").mkdir(parents=True)
        (tmp_path / "runs" / "campaign" / "plan.json").touch()
    given = {
        "SLURM_SUBMIT_DIR": str(tmp_path), "SLURM_JOB_NODELIST": "node-[a-b]", "SLURM_JOB_ID": "77", "SLURM_NNODES": "2",
        "SLURM_CPUS_PER_TASK": "32", "SLURM_GPUS_ON_NODE": "4", "PATH": f"{programs}:{os.environ['PATH']}",
    }  # fmt: skip
    subprocess.run(["bash", str(SLURM)], env=given, check=True)
    ray, _, words = " ".join((tmp_path / "asked").read_text().split("\n")).partition(" -- ")
    assert ray.startswith(
        ".venv/bin/ray symmetric-run --address node-a:20077 --min-nodes 2 --num-cpus 32 --num-gpus 4"
    )
    program, verb, *asked = words.split()
    assert (program, verb) == (".venv/bin/autoqec", "run")
    monkeypatch.setattr("autoqec.executors.registry.check_installed", lambda _library: None)
    found = options_of(asked)
    assert (found[which], found["executor"], found["parallel"]) == ("campaign", "ray:node-a:20077", 8)


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Template(Strict):
    spec: dict[Literal["containers", "volumes"], list[dict[str, Any]]]


class Head(Strict):
    rayStartParams: dict[str, str]
    template: Template


class Group(Head):
    groupName: str
    replicas: int = Field(ge=1)
    minReplicas: int = Field(ge=0)
    maxReplicas: int = Field(ge=1)


class Cluster(Strict):
    rayVersion: str
    headGroupSpec: Head
    workerGroupSpecs: list[Group]


class Spec(Strict):
    """Of a RayJob, `ray.io/v1`: those of its fields that the recipe uses."""

    entrypoint: str
    shutdownAfterJobFinishes: bool
    ttlSecondsAfterFinished: int
    backoffLimit: int
    rayClusterSpec: Cluster


class RayJob(Strict):
    apiVersion: Literal["ray.io/v1"]
    kind: Literal["RayJob"]
    metadata: dict[str, str]
    spec: Spec


def test_the_ray_job_has_the_fields_that_kuberay_knows() -> None:
    job = RayJob.model_validate(yaml.safe_load(KUBERNETES.read_text()))
    cluster = job.spec.rayClusterSpec
    pinned = re.search(r"^ray==(\S+)$", (ROOT / "constraints.txt").read_text(), flags=re.MULTILINE)
    assert pinned is not None
    assert cluster.rayVersion == pinned[1]
    for group in (cluster.headGroupSpec, *cluster.workerGroupSpecs):
        (container,) = group.template.spec["containers"]
        (mount,) = container["volumeMounts"]
        (volume,) = group.template.spec["volumes"]
        assert mount["name"] == volume["name"]
        places = {each["name"]: each["value"] for each in container["env"]}
        assert {name: place.startswith(mount["mountPath"]) for name, place in places.items()} == {
            "AUTOQEC_HOME": True,
            "AUTOQEC_CACHE": True,
        }
        assert container["resources"]["limits"] == container["resources"]["requests"]


def test_the_entry_point_of_the_ray_job_is_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = yaml.safe_load(KUBERNETES.read_text())["spec"]["entrypoint"]
    shell, flag, script = shlex.split(entry)
    assert (shell, flag) == ("sh", "-c")
    subprocess.run(["sh", "-n", "-c", script], check=True)
    monkeypatch.setattr("autoqec.executors.registry.check_installed", lambda _library: None)
    words = script.partition("exec autoqec run ")[2].replace("$which", "--resume campaign").split()
    assert options_of(words)["executor"] == "ray:auto"
