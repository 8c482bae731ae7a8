"""Escapes from the allow-list of tier 2, each in the config of a checkpoint that is otherwise honest."""

from __future__ import annotations

import json
from typing import Any

import torch

from cheats.corpus import cheat
from cheats.scene import Outcome, Scene, saved

_HEADER = "def message(x_src, x_dst, e_ij, params):\n"
_HONEST = f"{_HEADER}    return torch.tanh(params.W(x_src) + e_ij)\n"

_ESCAPES: tuple[tuple[str, str, str, str], ...] = (
    (
        "dunder attributes",
        "walks from a tensor's class to all classes of the process",
        "underscore",
        "    x = x_src.__class__.__base__.__subclasses__()\n    return params.W(x_src)\n",
    ),
    (
        "import statement",
        "imports os inside the function",
        "statement",
        "    import os\n    return params.W(x_src)\n",
    ),
    (
        "getattr and strings",
        "asks for a forbidden attribute by a name put together at run time",
        "name",
        '    f = getattr(torch, "load")\n    return params.W(x_src)\n',
    ),
    (
        "path through torch",
        "reaches the operating system as torch.utils.os",
        "torch",
        "    y = torch.utils.os.system(1)\n    return params.W(x_src)\n",
    ),
    (
        "torch.load",
        "loads a pickle through torch",
        "torch_path",
        "    y = torch.load(x_src)\n    return params.W(x_src)\n",
    ),
    (
        "string formatting",
        "reads attributes through a format string",
        "attribute: .format()",
        '    y = "{0.__class__}".format(x_src)\n    return params.W(x_src)\n',
    ),
    ("exec and eval", "runs text", "name", '    y = eval("1 + 1")\n    return params.W(x_src)\n'),
    (
        "comprehension",
        "hides a loop and a frame of its own in a comprehension",
        "ListComp",
        "    y = [x_src for i in range(9)]\n    return params.W(x_src)\n",
    ),
    (
        "lambda and walrus",
        "binds names where the lint might not look",
        "call: only named functions",
        "    y = (f := (lambda: x_src))()\n    return params.W(x_src)\n",
    ),
    (
        "try and finally",
        "catches the sandbox's own errors",
        "statement",
        "    try:\n        y = x_src\n    finally:\n        pass\n    return params.W(x_src)\n",
    ),
    (
        "table of literals",
        "holds a table of a hundred numbers in its source",
        "literal: more than",
        "    y = x_src\n" + 50 * "    y = 1.1 * y + 0.3\n" + "    return params.W(y)\n",
    ),
    (
        "in-place change of an input",
        "changes the hidden state of other messages through an underscored method",
        ".add_() is not an allowed method",
        "    y = x_src.add_(1.0)\n    return params.W(y)\n",
    ),
)
_WHOLE: tuple[tuple[str, str, str, str], ...] = (
    ("decorator", "a decorator runs when the function is defined", "signature", f"@torch.jit.ignore\n{_HONEST}"),
    ("default argument", "a default is evaluated when the function is defined", "signature", _HONEST.replace("params)", "params=exit())")),
    ("second function", "code beside the function runs when the module is made", "one_function", f"{_HONEST}\nopen('/etc/passwd')\n"),
    ("batch axis", "each message sees the mean over all shots of the batch", "batch_independence", f"{_HEADER}    y = x_src - x_src.mean(dim=0, keepdim=True)\n    return params.W(y)\n"),
)  # fmt: skip


def _player(code: str) -> Any:
    def play(scene: Scene) -> Outcome:
        custom = {"type": "custom", "code": _HONEST, "params_declared": {"W": "Linear(hidden, hidden)"}}
        network = {"layers": 1, "hidden_dim": 4, "message_fn": custom}
        folder = scene.round({"type": "gnn", "output_mode": "soft_priors", "gnn": network})
        (folder / "config.yaml").unlink()
        content = torch.load(folder / "checkpoint.pt", weights_only=True)
        info = json.loads(content["info"])
        info["dsl"]["gnn"]["message_fn"]["code"] = code
        (folder / "checkpoint.pt").write_bytes(saved({**content, "info": json.dumps(info)}))
        return scene.verify(folder)

    return play


for _name, _how, _rule, _code in (
    *((n, f"a custom function {h}", r, _HEADER + c) for n, h, r, c in _ESCAPES),
    *_WHOLE,
):
    cheat(
        f"tier 2: {_name}",
        family="escapes from the allow-list",
        how=_how,
        defence="custom code is linted node by node against an allow-list and tried, in the sandboxed worker only",
        expect="refused",
        because=_rule,
    )(_player(_code))
