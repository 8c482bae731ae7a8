"""Role backends: how a role's question gets to a language model. One file each; add a line to add one."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from autoqec.agents.backends.base import Backend, without_a_model
from autoqec.errors import InputError

BACKENDS = {
    "claude-cli": "claude_cli:ClaudeCli",
    "codex-cli": "codex_cli:CodexCli",
    "anthropic": "anthropic:Anthropic",
    "openai": "openai:OpenAI",
    "replay": "replay:Replay",
}


def make_backend(name: str, *, model: str | None, environ: Mapping[str, str], where: str) -> Backend:
    """The backend, ready to be called. where: the variable that names it.

    Raises:
        UnavailableError: a program, a key or a recording is missing.
    """
    if name not in BACKENDS:
        raise InputError(
            f"{name!r} is not a role backend",
            where=where,
            hint=f"known: {', '.join(BACKENDS)}; or {without_a_model()}",
        )
    module, _, cls = BACKENDS[name].partition(":")
    backend: Backend = getattr(import_module(f"{__name__}.{module}"), cls)(model, environ)
    return backend
