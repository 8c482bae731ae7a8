"""Pages of the documentation that are made from the code: commands, Python names, options of configs, names that can be chosen.

A hook of MkDocs (`mkdocs.yml`); `python tools/docs_reference.py FOLDER` writes the same pages into a folder.
"""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
_SECTION = re.compile(r"^(Args|Raises|Examples|Returns):\s*$")


def pages() -> dict[str, str]:
    """By the path below `docs/`."""
    return {
        "reference/cli.md": commands(),
        "reference/api.md": names(),
        "reference/config.md": config(),
        "reference/registries.md": registries(),
    }


def commands() -> str:
    import click

    from autoqec.commands import GROUPS, main

    context = click.Context(main, info_name="autoqec", max_content_width=100)
    lines = ["# Commands", "", "What `autoqec COMMAND --help` prints.", ""]
    for group, verbs in GROUPS.items():
        lines += [f"## {group}", ""]
        for verb in verbs:
            found = main.get_command(context, verb)
            assert found is not None
            below = found.commands.items() if isinstance(found, click.Group) else ()
            for path, command in ((verb, found), *((f"{verb} {name}", one) for name, one in below)):
                with click.Context(command, info_name=f"autoqec {path}", max_content_width=100) as inner:
                    lines += [f"### autoqec {path}", "", "```text", command.get_help(inner), "```", ""]
    return "\n".join(lines)


def names() -> str:
    import autoqec

    lines = [
        "# Python names",
        "",
        "What `import autoqec` offers, from its docstrings; [Python](../python_api.md) explains them.",
        "",
    ]
    for name in autoqec.__all__:
        found = getattr(autoqec, name)
        lines += [f"## {name}", ""]
        if inspect.isclass(found):
            lines += [_prose(inspect.getdoc(found)), ""]
            for member, value in _members(found):
                lines += [
                    f"### {name}.{member}",
                    "",
                    *_signature(member, value),
                    _prose(inspect.getdoc(value)),
                    "",
                ]
        else:
            lines += [*_signature(name, found), _prose(inspect.getdoc(found)), ""]
    return "\n".join(lines)


def _members(found: type) -> Iterator[tuple[str, Any]]:
    """Public ones that have something to say, as they stand in the class."""
    for member, value in vars(found).items():
        if (
            not member.startswith("_")
            and (callable(value) or isinstance(value, property))
            and inspect.getdoc(value)
        ):
            yield member, value


def _signature(name: str, value: Any) -> list[str]:
    if not callable(value):
        return []
    return [
        "```python",
        name + re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(inspect.signature(value))),
        "```",
        "",
    ]


def _prose(doc: str | None) -> str:
    """A docstring as Markdown: arguments as a list, examples as code."""
    out: list[str] = []
    section = ""
    for line in (doc or "").splitlines():
        if found := _SECTION.match(line):
            section = found[1]
            out += ["", f"**{section}**", "", *(["```python"] if section == "Examples" else [])]
        elif section == "Examples":
            out.append(line.strip())
        elif section:
            item = re.match(r" {4}([\w, ]+): (.*)", line)
            out.append(f"- `{item[1]}`: {item[2]}" if item else f"  {line.strip()}")
        else:
            out.append(line)
    return "\n".join([*out, *(["```"] if section == "Examples" else [])])


def config() -> str:
    from autoqec.decoders.dsl_schema import PredecoderDSL

    schema = PredecoderDSL.model_json_schema()
    lines = ["# Options of a predecoder's config", "", _paragraph(PredecoderDSL.__doc__), ""]
    lines += [
        "Every option, from the schema that reads configs; [Predecoders](../predecoders.md) explains them.",
        "",
    ]
    lines += ["| option | values | default |", "|---|---|---|"]
    lines += [
        f"| `{path}` | {values} | {default} |" for path, values, default in _options(schema, schema, "")
    ]
    return "\n".join(lines) + "\n"


def _options(node: dict[str, Any], schema: dict[str, Any], path: str) -> Iterator[tuple[str, str, str]]:
    for name, field in node.get("properties", {}).items():
        inner = [_resolved(one, schema) for one in field.get("anyOf", [field])]
        blocks = [one for one in inner if "properties" in one]
        simple = [one for one in inner if "properties" not in one and one.get("type") != "null"]
        here = f"{path}{name}"
        if simple or "$ref" not in str(field):
            default = "" if field.get("default") is None else f"`{field['default']}`".replace("|", "\\|")
            yield here, " or ".join(filter(None, map(_values, simple))), default
        for block in blocks:
            yield from _options(block, schema, f"{here}.")


def _resolved(node: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    found = node.get("$ref")
    return node if found is None else schema["$defs"][found.rpartition("/")[2]]


def _values(node: dict[str, Any]) -> str:
    if "enum" in node:
        return ", ".join(f"`{value}`" for value in node["enum"])
    if "const" in node:
        return f"`{node['const']}`"
    if "items" in node:
        return f"list of {_values(node['items'])}"
    words = {
        "minimum": "at least",
        "exclusiveMinimum": "above",
        "maximum": "at most",
        "exclusiveMaximum": "below",
    }
    limits = [f"{word} {node[key]:g}" for key, word in words.items() if key in node]
    return " ".join([str(node.get("type", "")), *limits])


def registries() -> str:
    from typing import get_args

    from autoqec.decoders.baselines import registry
    from autoqec.decoders.dsl_schema import Loss
    from autoqec.envs.codes.families import FAMILIES
    from autoqec.envs.load import builtin_names
    from autoqec.eval.guards import guards
    from autoqec.runs.proposer_adapters import NAMES

    lists = {
        "Environments that come with it": builtin_names(),
        "Families of codes": list(FAMILIES),
        "Classical decoders": registry.names(),
        "Losses": [name for part in get_args(Loss) for name in (get_args(part) or (part,))],
        "Proposers": list(NAMES),
        "Guards of a verification": [guard.name for guard in guards()],
    }
    lines = [
        "# Names to choose from",
        "",
        "Registries of the code. AGENTS.md of the repository says how to add an entry.",
        "",
    ]
    for title, found in lists.items():
        lines += [f"## {title}", "", *(f"- `{name}`" for name in found), ""]
    return "\n".join(lines)


def _paragraph(doc: str | None) -> str:
    return textwrap.dedent(doc or "").strip()


def on_files(files: Any, config: Any) -> Any:
    """Called by MkDocs."""
    from mkdocs.structure.files import File

    for path, text in pages().items():
        files.append(File.generated(config, path, content=text))
    return files


if __name__ == "__main__":
    for _path, _text in pages().items():
        target = Path(sys.argv[1]) / _path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(_text, encoding="utf-8")
