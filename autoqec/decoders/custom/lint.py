"""The lint of custom code: one function, checked node by node. Long, because the walk is one piece of trust.

What may be named is in `allowed`. The first violation is raised as a `CustomCodeError` with its rule,
its line and a hint what to do about it.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Mapping
from typing import NoReturn

from autoqec.decoders.custom import allowed
from autoqec.decoders.custom.allowed import Slot
from autoqec.decoders.custom.errors import CustomCodeError
from autoqec.decoders.custom.params import parse_params, widths
from autoqec.decoders.dsl_schema import CustomFunction

_EINSUM = re.compile(r"[A-Za-z,. ]{1,64}(->[A-Za-z. ]{0,32})?")


def lint(function: CustomFunction, slot: Slot, *, where: str) -> ast.Module:
    """The parsed function; nothing of it runs. `where`: the field of the DSL, whose slot `SLOTS` gives."""
    declared = parse_params(function.params_declared, widths(slot, 1), where=where)
    return _Lint(slot, {name: d.is_module for name, d in declared.items()}, where).check(function.code)


class _Lint:
    """`params`: the declared names, true where one is called as a module."""

    def __init__(self, slot: Slot, params: Mapping[str, bool], where: str) -> None:
        self.slot: Slot = slot
        self.params = params
        self.where = where
        self.signature = allowed.SIGNATURES[slot]
        self.known: set[str] = set(self.signature) - {"params"}
        self.used: set[str] = set()
        self.numbers = self.elements = 0

    def refuse(self, rule: str, what: str, hint: str, node: ast.AST | None = None) -> NoReturn:
        raise CustomCodeError(rule, what, where=self.where, hint=hint, line=getattr(node, "lineno", None))

    def check(self, code: str) -> ast.Module:
        if len(code.encode("utf-8", "surrogatepass")) > allowed.MAX_SOURCE_BYTES:
            self.refuse(
                "size", f"more than {allowed.MAX_SOURCE_BYTES} bytes of source", "write a shorter function"
            )
        try:
            module = ast.parse(code)
        except SyntaxError as error:
            line = ast.Pass(lineno=error.lineno or 1)
            self.refuse("syntax", error.msg, "write valid Python 3.11", line)
        except (ValueError, RecursionError, MemoryError) as error:
            self.refuse("syntax", f"cannot be parsed ({type(error).__name__})", "write plain, flat Python")
        if _depth_exceeds(module, allowed.MAX_DEPTH):
            self.refuse("size", f"nested deeper than {allowed.MAX_DEPTH}", "use intermediate names")
        if sum(1 for _ in ast.walk(module)) > allowed.MAX_NODES:
            self.refuse("size", f"more than {allowed.MAX_NODES} syntax nodes", "write a shorter function")
        if len(module.body) != 1 or not isinstance(module.body[0], ast.FunctionDef):
            stray = next((s for s in module.body if not isinstance(s, ast.FunctionDef)), None)
            stray = stray or (module.body[1] if len(module.body) > 1 else None)
            self.refuse(
                "one_function",
                "expected one function and nothing else",
                f"keep only def {self._header}",
                stray,
            )
        self._function(module.body[0])
        return module

    @property
    def _header(self) -> str:
        return f"{self.slot}({', '.join(self.signature)})"

    def _function(self, function: ast.FunctionDef) -> None:
        arguments = function.args
        names = tuple(a.arg for a in arguments.args)
        extra = (
            arguments.posonlyargs
            or arguments.kwonlyargs
            or arguments.vararg
            or arguments.kwarg
            or arguments.defaults
            or any(a.annotation for a in arguments.args)
            or function.returns
            or function.decorator_list
        )
        if function.name != self.slot or names != self.signature or extra:
            hint = f"write exactly def {self._header}: without defaults, annotations or decorators"
            self.refuse("signature", f"expected def {self._header}", hint, function)
        body = function.body
        if isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
            if not isinstance(body[0].value.value, str):
                self.refuse("statement", "a bare constant does nothing", "remove it", body[0])
            body = body[1:]
        if not body or not isinstance(body[-1], ast.Return):
            self.refuse("return", "the function must end in a return", "end with return <tensor>", function)
        for statement in body:
            self._statement(statement, loops=0, last=statement is body[-1])
        for name in self.params:
            if name not in self.used:
                self.refuse(
                    "unused_parameter",
                    f"{name!r} is declared and never used",
                    f"use params.{name} or drop it",
                )

    def _statement(self, node: ast.stmt, *, loops: int, last: bool = False) -> None:
        if isinstance(node, ast.Assign):
            self._assign(node)
        elif isinstance(node, ast.Return):
            if not last or node.value is None:
                self.refuse(
                    "return", "one return, of a tensor, at the end", "use torch.where for choices", node
                )
            self._expression(node.value)
        elif isinstance(node, ast.For):
            self._for(node, loops)
        elif isinstance(node, ast.AugAssign):
            self.refuse(
                "statement", "augmented assignment can change an input in place", "write x = x + y", node
            )
        else:
            self.refuse(
                "statement",
                f"{type(node).__name__} is not allowed",
                "use assignments, for over range, and one return; torch.where instead of if",
                node,
            )

    def _assign(self, node: ast.Assign) -> None:
        value = node.value
        if isinstance(value, ast.Tuple) and all(isinstance(t, ast.Tuple) for t in node.targets):
            self._display(value)
        else:
            self._expression(value)
        for target in node.targets:
            self._bind(target)

    def _bind(self, target: ast.expr) -> None:
        if isinstance(target, ast.Tuple) and target.elts:
            for element in target.elts:
                self._bind(element)
            return
        if not isinstance(target, ast.Name):
            self.refuse(
                "assignment", "only plain names can be assigned", "build a new tensor instead", target
            )
        self._plain(target.id, target)
        if target.id in {"torch", "F", "params", self.slot} or target.id in allowed.BUILTINS:
            self.refuse("assignment", f"{target.id!r} has a meaning already", "choose another name", target)
        self.known.add(target.id)

    def _for(self, node: ast.For, loops: int) -> None:
        hint = f"write for i in range(n) with a literal n up to {allowed.MAX_LOOP}"
        call = node.iter
        if (
            not isinstance(call, ast.Call)
            or not isinstance(call.func, ast.Name)
            or call.func.id != "range"
            or call.keywords
            or not 1 <= len(call.args) <= 3
            or node.orelse
            or not isinstance(node.target, ast.Name)
        ):
            self.refuse("loop", "a loop runs over a literal range", hint, node)
        bounds = [_literal_int(a) for a in call.args]
        steps = [b for b in bounds if b is not None and abs(b) <= allowed.MAX_INT]
        if (
            len(steps) != len(bounds)
            or (len(steps) == 3 and steps[2] == 0)
            or len(range(*steps)) > allowed.MAX_LOOP
        ):
            self.refuse("loop", "the range is not a short literal one", hint, node)
        if loops >= allowed.MAX_LOOP_DEPTH:
            self.refuse(
                "loop", f"loops nested deeper than {allowed.MAX_LOOP_DEPTH}", "use tensor operations", node
            )
        for argument in call.args:
            self._expression(argument)
        self._bind(node.target)
        for statement in node.body:
            self._statement(statement, loops=loops + 1)

    def _expression(self, node: ast.expr) -> None:
        if not isinstance(node, allowed.EXPRESSIONS):
            hint = "use arithmetic, comparisons, allowed torch functions and Tensor methods"
            self.refuse("expression", f"{type(node).__name__} is not allowed", hint, node)
        if isinstance(node, ast.Name):
            self._name(node)
        elif isinstance(node, ast.Constant):
            self._constant(node)
        elif isinstance(node, ast.BinOp):
            self._operation(node)
        elif isinstance(node, ast.UnaryOp):
            if not isinstance(node.op, allowed.SIGNS):
                self.refuse("operator", f"{type(node.op).__name__} is not allowed", "use torch.where", node)
            self._expression(node.operand)
        elif isinstance(node, ast.Compare):
            if len(node.ops) != 1 or not isinstance(node.ops[0], allowed.COMPARISONS):
                self.refuse("operator", "only single <, <=, >, >=, ==, !=", "combine with torch.where", node)
            self._expression(node.left)
            self._expression(node.comparators[0])
        elif isinstance(node, ast.Call):
            self._call(node)
        elif isinstance(node, ast.Attribute):
            self._attribute(node)
        elif isinstance(node, ast.Subscript):
            self._subscript(node)
        else:
            self.refuse(
                "literal",
                f"{type(node).__name__} out of place",
                "lists belong in calls, slices in indices",
                node,
            )

    def _name(self, node: ast.Name) -> None:
        self._plain(node.id, node)
        if node.id in {"torch", "F", "params"} or node.id in allowed.BUILTINS:
            self.refuse(
                "name", f"{node.id!r} cannot be passed around", "call one of its functions directly", node
            )
        if node.id not in self.known:
            self.refuse(
                "name", f"{node.id!r} is not known here", "use the arguments, local names, torch and F", node
            )

    def _plain(self, name: str, node: ast.AST) -> None:
        if name.startswith("_") or "__" in name:
            self.refuse("underscore", f"{name!r}: underscored names are closed", "choose another name", node)

    def _constant(self, node: ast.Constant) -> None:
        value = node.value
        if value is None or isinstance(value, bool):
            return
        if isinstance(value, int | float):
            self.numbers += 1
            if self.numbers > allowed.MAX_NUMBERS:
                self.refuse(
                    "literal", f"more than {allowed.MAX_NUMBERS} numbers", "declare a Parameter", node
                )
            if isinstance(value, int) and abs(value) > allowed.MAX_INT:
                self.refuse(
                    "literal", f"an integer above {allowed.MAX_INT}", "use a float, such as 1e9", node
                )
            if not math.isfinite(value):
                self.refuse("literal", "a number that is not finite", "use a finite one, such as 1e9", node)
            return
        kind = "a string" if isinstance(value, str) else type(value).__name__
        self.refuse(
            "literal", f"{kind} is not allowed here", "use numbers; strings only as einsum or reduce", node
        )

    def _operation(self, node: ast.BinOp) -> None:
        if not isinstance(node.op, allowed.OPERATORS):
            self.refuse("operator", f"{type(node.op).__name__} is not allowed", "use + - * / // % ** @", node)
        if isinstance(node.op, ast.Pow):
            power = _number(node.right)
            if power is None or abs(power) > allowed.MAX_POWER:
                hint = f"use a literal exponent up to {allowed.MAX_POWER}, or torch.exp"
                self.refuse("operator", "the exponent is not a small literal", hint, node)
        self._expression(node.left)
        self._expression(node.right)

    def _call(self, node: ast.Call) -> None:
        for keyword in node.keywords:
            if keyword.arg is None or keyword.arg not in allowed.KEYWORDS:
                name = "**" if keyword.arg is None else keyword.arg
                self.refuse("keyword", f"{name!r} is not an allowed keyword", "drop it", keyword.value)
        path = self._function_path(node)
        for argument in [*node.args, *(k.value for k in node.keywords)]:
            if isinstance(argument, ast.Tuple | ast.List):
                self._display(argument)
            elif isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                self._string(argument, argument.value, path)
            else:
                self._expression(argument)

    def _function_path(self, node: ast.Call) -> str:
        """Check what is called; its dotted path, or the name of the method."""
        function = node.func
        if isinstance(function, ast.Name):
            if function.id not in allowed.BUILTINS or function.id == "range":
                self._plain(function.id, function)
                self.refuse(
                    "name", f"{function.id!r} cannot be called", "call torch functions or methods", function
                )
            return function.id
        if (name := self._parameter(function)) is not None:
            if not self.params[name]:
                self.refuse(
                    "call", f"params.{name} is a tensor", "use it in arithmetic, or declare Linear", function
                )
            return f"params.{name}"
        if not isinstance(function, ast.Attribute):
            self.refuse(
                "call", "only named functions can be called", "call torch functions or methods", function
            )
        self._plain(function.attr, function)
        path = _dotted(function)
        if path is not None and path.split(".")[0] in {"torch", "F"}:
            return self._torch_path(path, node)
        if function.attr not in allowed.TENSOR_METHODS:
            self.refuse(
                "attribute", f".{function.attr}() is not an allowed method", "see the allow-list", function
            )
        self._expression(function.value)
        return function.attr

    def _torch_path(self, path: str, node: ast.Call) -> str:
        path = (
            path.removeprefix("torch.")
            if path.startswith("torch.")
            else path.replace("F.", "nn.functional.", 1)
        )
        functional = path.removeprefix("nn.functional.")
        table = allowed.TORCH if functional == path else allowed.FUNCTIONAL
        if any(part.startswith("_") for part in path.split(".")):
            self.refuse(
                "underscore", f"{path!r}: underscored names are closed", "use allowed functions", node
            )
        if functional not in table:
            self.refuse("torch_path", f"torch.{path} is not on the allow-list", "use allowed functions", node)
        if len(node.args) > table[functional]:
            self.refuse("call", f"{path} takes {table[functional]} arguments here", "name the others", node)
        return functional

    def _parameter(self, node: ast.expr) -> str | None:
        """The declared name behind `params.W` or `params["W"]`; None for anything else."""
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "params":
            name: object = node.attr
        elif (
            isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == "params"
        ):
            name = node.slice.value if isinstance(node.slice, ast.Constant) else None
        else:
            return None
        if not isinstance(name, str) or name not in self.params:
            if isinstance(name, str):
                self._plain(name, node)
            self.refuse("parameter", f"params has no {name!r}", "declare it in params_declared", node)
        self.used.add(name)
        return name

    def _attribute(self, node: ast.Attribute) -> None:
        self._plain(node.attr, node)
        if (name := self._parameter(node)) is not None:
            self._not_module(name, node)
            return
        path = _dotted(node)
        if path is not None and path.split(".")[0] in {"torch", "F"}:
            self.refuse("torch_path", f"{path} can only be called", "call an allowed function", node)
        owner = self._parameter(node.value) if isinstance(node.value, ast.Attribute | ast.Subscript) else None
        if owner is not None and self.params[owner] and node.attr in {"weight", "bias"}:
            return
        if node.attr not in allowed.TENSOR_PROPERTIES:
            self.refuse("attribute", f".{node.attr} is not an allowed attribute", "see the allow-list", node)
        if owner is None:
            self._expression(node.value)
        else:
            self._not_module(owner, node)

    def _not_module(self, name: str, node: ast.AST) -> None:
        if self.params[name]:
            self.refuse("parameter", f"params.{name} can only be called", f"write params.{name}(x)", node)

    def _subscript(self, node: ast.Subscript) -> None:
        if (name := self._parameter(node)) is not None:
            self._not_module(name, node)
            return
        self._expression(node.value)
        self._index(node.slice)

    def _index(self, node: ast.expr) -> None:
        if isinstance(node, ast.Tuple):
            self._count(node)
            for element in node.elts:
                self._index(element)
        elif isinstance(node, ast.Slice):
            for part in (node.lower, node.upper, node.step):
                if part is not None:
                    self._expression(part)
        elif not (isinstance(node, ast.Constant) and node.value is Ellipsis):
            self._expression(node)

    def _display(self, node: ast.Tuple | ast.List) -> None:
        """A tuple or list where one may stand: as an argument of a call, or on the right of an unpacking."""
        self._count(node)
        for element in node.elts:
            if isinstance(element, ast.Tuple | ast.List):
                self._display(element)
            else:
                self._expression(element)

    def _count(self, node: ast.Tuple | ast.List) -> None:
        self.elements += len(node.elts)
        if self.elements > allowed.MAX_ELEMENTS:
            self.refuse(
                "literal", f"more than {allowed.MAX_ELEMENTS} list elements", "declare a Parameter", node
            )

    def _string(self, node: ast.AST, value: str, path: str) -> None:
        if not (_EINSUM.fullmatch(value) if path == "einsum" else value in allowed.WORDS.get(path, ())):
            self.refuse("literal", "a string is not allowed here", "strings only as einsum or reduce", node)


def _dotted(node: ast.expr) -> str | None:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else None


def _number(node: ast.expr) -> float | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _number(node.operand)
        return None if inner is None else -inner
    if (
        isinstance(node, ast.Constant)
        and isinstance(node.value, int | float)
        and not isinstance(node.value, bool)
    ):
        return node.value
    return None


def _literal_int(node: ast.expr) -> int | None:
    value = _number(node)
    return value if isinstance(value, int) else None


def _depth_exceeds(root: ast.AST, limit: int) -> bool:
    level: list[ast.AST] = [root]
    for _ in range(limit):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return False
    return True
