"""The lint of tier-2 code: escapes are refused by the right rule, honest functions pass."""

import pytest

from autoqec.decoders.custom.allowed import SIGNATURES, Slot
from autoqec.decoders.custom.errors import CustomCodeError
from autoqec.decoders.custom.lint import lint
from autoqec.decoders.dsl_schema import CustomFunction
from autoqec.errors import InputError

HEADER = "def message(x_src, x_dst, e_ij, params):\n"


def body(*lines: str) -> str:
    return HEADER + "".join(f"    {line}\n" for line in lines)


def check(code: str, slot: Slot = "message", **params: str):
    return lint(
        CustomFunction(type="custom", code=code, params_declared=params), slot, where="gnn.message_fn"
    )


def expr(text: str) -> str:
    return body(f"return {text}")


ESCAPES = [
    # ways out of torch
    ("torch_path", expr("torch.os.system('id')")),
    ("torch_path", expr("torch.load(x_src)")),
    ("torch_path", expr("torch.save(x_src, 'f')")),
    ("torch_path", expr("torch.ops.aten.add(x_src, x_dst)")),
    ("torch_path", expr("torch.utils.cpp_extension.load(x_src)")),
    ("torch_path", expr("torch.nn.Linear(4, 4)")),
    ("torch_path", expr("torch.tensor([1.0])")),
    ("torch_path", expr("torch.rand(4)")),
    ("torch_path", expr("torch.hub.load(x_src)")),
    ("torch_path", expr("torch.manual_seed(0)")),
    ("torch_path", expr("torch.nn.functional.dropout(x_src)")),
    ("torch_path", expr("torch.nn.functional.relu_(x_src)")),
    ("torch_path", expr("torch.F.relu(x_src)")),
    ("torch_path", expr("torch.jit.script(x_src)")),
    ("torch_path", expr("x_src + torch.inf")),
    ("underscore", expr("torch._C._get_tracing_state()")),
    ("underscore", expr("torch.__builtins__()")),
    ("name", body("t = torch", "return t.os.system(x_src)")),
    ("torch_path", body("f = torch.relu", "return f(x_src)")),
    # dunder chains and builtins
    ("underscore", expr("x_src.__class__")),
    ("underscore", expr("().__class__.__bases__[0].__subclasses__()")),
    ("underscore", expr("message.__globals__")),
    ("underscore", body("__x = x_src", "return __x")),
    ("underscore", expr("x_src.__ｃlass__")),  # NFKC folds this into __class__
    ("name", expr("getattr(torch, 'os')")),
    ("name", expr("eval('1')")),
    ("name", expr("open('/etc/passwd')")),
    ("name", expr("globals()")),
    ("underscore", expr("__import__('os')")),
    ("name", expr("type(x_src)")),
    ("name", expr("print(x_src)")),
    ("name", expr("message(x_src, x_dst, e_ij, params)")),
    ("name", body("return x_src + y")),
    ("name", expr("max(params)")),
    ("name", expr("range(10)")),
    # shape of the source
    ("one_function", "import os\n" + expr("x_src")),
    ("one_function", "from torch import *\n" + expr("x_src")),
    ("one_function", expr("x_src") + "import os\n"),
    ("one_function", "class A:\n    import os\n"),
    ("one_function", "async " + expr("x_src")),
    ("one_function", expr("x_src") + expr("x_dst")),
    ("one_function", ""),
    ("signature", "@print\n" + expr("x_src")),
    ("signature", "def message(x_src, x_dst, e_ij, params=print(1)):\n    return x_src\n"),
    ("signature", "def message(x_src: print(1), x_dst, e_ij, params):\n    return x_src\n"),
    ("signature", "def message(x_src, x_dst, e_ij, params) -> print(1):\n    return x_src\n"),
    ("signature", "def message(x_src, x_dst, params):\n    return x_src\n"),
    ("signature", "def message(*x_src):\n    return x_src\n"),
    ("signature", "def other(x_src, x_dst, e_ij, params):\n    return x_src\n"),
    ("syntax", "def message(x_src, x_dst, e_ij, params:\n"),
    ("syntax", expr("x_src") + "\0"),
    ("syntax", expr("(" * 300 + "x_src" + ")" * 300)),
    # statements
    ("statement", body("import os", "return x_src")),
    ("statement", body("try:", "    y = x_src", "except Exception:", "    y = x_dst", "return y")),
    ("statement", body("with x_src:", "    y = x_dst", "return x_src")),
    ("statement", body("global a", "return x_src")),
    ("statement", body("def inner():", "    return 1", "return x_src")),
    ("statement", body("class A:", "    y = 1", "return x_src")),
    ("statement", body("while True:", "    y = x_src", "return x_src")),
    ("statement", body("if x_src.sum() > 0:", "    y = 1", "return x_src")),
    ("statement", body("x_src += 1", "return x_src")),
    ("statement", body("del x_src", "return x_dst")),
    ("statement", body("assert x_src", "return x_src")),
    ("statement", body("raise x_src", "return x_src")),
    ("statement", body("y: int = 3", "return x_src")),
    ("statement", body("x_src.sum()", "return x_src")),
    ("assignment", body("x_src[0] = 1", "return x_src")),
    ("assignment", body("x_src.data = x_dst", "return x_src")),
    ("assignment", body("torch = x_src", "return x_src")),
    ("assignment", body("params = x_src", "return x_src")),
    ("assignment", body("*a, b = x_src, x_dst", "return b")),
    ("return", body("y = x_src")),
    ("return", body("return x_src", "y = x_dst", "return y")),
    ("loop", body("for i in range(65):", "    y = x_src", "return x_src")),
    ("loop", body("for i in range(len(x_src)):", "    y = x_src", "return x_src")),
    ("loop", body("for i in x_src:", "    y = i", "return x_src")),
    (
        "loop",
        body("for i in range(9):", " for j in range(9):", "  for k in range(9):", "   y = k", "return x_src"),
    ),
    # expressions
    ("expression", expr("(y := x_src)")),
    ("expression", expr("lambda: x_src")),
    ("call", expr("(lambda: x_src)()")),
    ("expression", expr("[x for x in x_src]")),
    ("expression", expr("x_src if x_dst else e_ij")),
    ("expression", expr("f'{x_src.__class__}'")),
    ("expression", expr("{'a': x_src}")),
    ("expression", expr("x_src and x_dst")),
    ("expression", body("y = yield x_src", "return y")),
    ("expression", expr("torch.cat(*x_src)")),
    ("keyword", expr("torch.relu(**x_src)")),
    ("keyword", expr("torch.exp(x_src, out=x_dst)")),
    ("keyword", expr("F.relu(x_src, inplace=True)")),
    ("call", expr("F.relu(x_src, True)")),
    ("call", expr("F.leaky_relu(x_src, 0.1, True)")),
    ("operator", expr("x_src < x_dst < e_ij")),
    ("operator", expr("x_src is x_dst")),
    ("operator", expr("9 ** 9 ** 9")),
    ("operator", expr("x_src ** x_dst")),
    ("operator", expr("1 << 64")),
    ("operator", expr("not x_src")),
    # literals
    ("literal", expr("'{0.__class__}'.sum(x_src)")),
    ("attribute", expr("'{0.__class__}'.format(x_src)")),
    ("literal", expr("x_src['data']")),
    ("literal", expr("float('nan')")),
    ("literal", expr("b'1'")),
    ("literal", expr("1j * x_src")),
    ("literal", expr("x_src * 1e999")),
    ("literal", expr("x_src * 123456789")),
    ("literal", body("y = (0, 1)", "return x_src")),
    ("literal", expr("(0,) * 1000")),
    ("literal", expr("torch.cat([" + "x_src, " * 70 + "])")),
    ("literal", body(*(f"y = x_src * {i}.5" for i in range(70)), "return x_src")),
    ("size", expr("x_src") + "#" * 9000),
    ("size", expr("-" * 60 + "x_src")),
    # attributes and methods
    *(
        ("attribute", expr(f"x_src.{name}"))
        for name in [
            "numpy()",
            "data",
            "grad",
            "backward()",
            "requires_grad_()",
            "register_hook(x_dst)",
            "to(x_dst)",
            "share_memory_()",
            "cpu()",
            "item()",
            "tolist()",
            "detach()",
            "add_(1)",
            "copy_(x_dst)",
            "storage()",
            "untyped_storage()",
            "set_(x_dst)",
            "apply_(x_dst)",
            "map_(x_dst,x_src)",
            "type(x_dst)",
            "dtype",
            "device",
            "grad_fn",
            "is_leaf",
            "exponential_()",
            "bernoulli()",
            "data_ptr()",
        ]
    ),
    ("attribute", expr("x_src.shape.count(1)")),
    ("attribute", expr("x_src.sum")),
    # parameters
    ("parameter", expr("params.W(x_src)")),
    ("parameter", expr("params['W'](x_src)")),
    ("underscore", expr("params.__dict__")),
    ("parameter", expr("params[x_src]")),
]


@pytest.mark.parametrize(
    ("rule", "code"), ESCAPES, ids=[f"{i}-{rule}" for i, (rule, _) in enumerate(ESCAPES)]
)
def test_escape_is_refused(rule, code):
    with pytest.raises(CustomCodeError) as caught:
        lint(
            CustomFunction.model_construct(type="custom", code=code, params_declared={}),
            "message",
            where="gnn.message_fn",
        )
    assert caught.value.rule == rule, caught.value
    assert caught.value.hint
    assert isinstance(caught.value, InputError)


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("attribute", "params.W.register_forward_hook"),
        ("attribute", "params.W.weight.data"),
        ("parameter", "params.W + x_src"),
        ("call", "params.g(params.W(x_src))"),
        ("attribute", "params.g.data + params.W(x_src)"),
        ("attribute", "params.W.modules()"),
        ("unused_parameter", "params.W(x_src)"),
    ],
)
def test_declared_parameters_are_no_way_out(rule, text):
    with pytest.raises(CustomCodeError) as caught:
        check(expr(text), W="Linear(hidden, hidden)", g="Parameter(hidden)")
    assert caught.value.rule == rule, caught.value


def test_the_error_names_rule_line_and_mend():
    with pytest.raises(CustomCodeError) as caught:
        check(body("y = x_src", "z = torch.os.getpid()", "return y + z"))
    assert caught.value.line == 3
    assert str(caught.value).startswith("gnn.message_fn, line 3: torch_path: torch.os.getpid")
    assert "hint:" in str(caught.value)


HONEST: list[tuple[Slot, dict[str, str], list[str]]] = [
    ("message", {}, ["return torch.relu(x_src + x_dst + e_ij)"]),
    ("message", {"W": "Linear(hidden, hidden)"}, ["return F.silu(params.W(x_src) + e_ij)"]),
    (
        "message",
        {"W": "Linear(3*hidden, out)"},
        ["h = torch.cat([x_src, x_dst, e_ij], dim=-1)", 'return params["W"](h)'],
    ),
    (
        "message",
        {"g": "Parameter(hidden)"},
        ['"""A gate."""', "return torch.sigmoid(params.g * e_ij) * x_src"],
    ),
    (
        "message",
        {"N": "LayerNorm(hidden)", "A": "Parameter(hidden, hidden)"},
        ["h = params.N(x_src)", "for i in range(3):", "    h = torch.tanh(h @ params.A + e_ij)", "return h"],
    ),
    ("message", {}, ["a, b = x_src, x_dst", "return torch.where(a > b, a, 0.5 * b) - e_ij ** 2"]),
    (
        "message",
        {"W": "Linear(hidden, 2*hidden)"},
        [
            "a, b = params.W(x_src).chunk(2, dim=-1)",
            "return a * torch.nn.functional.gelu(b, approximate='tanh') + e_ij",
        ],
    ),
    (
        "message",
        {},
        [
            "s = (x_src * x_dst).sum(dim=-1, keepdim=True) / x_src.shape[-1] ** 0.5",
            "return torch.tanh(s) * e_ij",
        ],
    ),
    (
        "message",
        {"B": "Parameter(hidden, hidden)"},
        ["return torch.einsum('beh,hk->bek', x_src, params.B) + e_ij"],
    ),
    (
        "aggregate",
        {},
        [
            "out = messages.new_zeros(messages.shape[0], n_nodes, messages.shape[-1])",
            "return out.index_add(1, edge_index[1], messages)",
        ],
    ),
    (
        "aggregate",
        {},
        [
            "index = edge_index[1].view(1, -1, 1).expand_as(messages)",
            "out = messages.new_zeros(messages.shape[0], n_nodes, messages.shape[-1])",
            "return out.scatter_reduce(1, index, messages, reduce='amax', include_self=False)",
        ],
    ),
    ("head", {"W": "Linear(hidden, out)"}, ["return params.W(hidden_state)"]),
    (
        "head",
        {"W": "Linear(hidden, 8)", "V": "Linear(8, out)"},
        ["h = F.layer_norm(hidden_state, hidden_state.shape[-1:])", "return params.V(F.elu(params.W(h)))"],
    ),
    (
        "head",
        {},
        ["return hidden_state[..., 0:1] - hidden_state[..., None].squeeze(-1).mean(dim=-1, keepdim=True)"],
    ),
]


@pytest.mark.parametrize(("slot", "params", "lines"), HONEST, ids=range(len(HONEST)))
def test_honest_function_is_accepted(slot, params, lines):
    code = f"def {slot}({', '.join(SIGNATURES[slot])}):\n" + "".join(f"    {line}\n" for line in lines)
    check(code, slot, **params)


@pytest.mark.parametrize(
    "declaration",
    [
        "Linear(hidden)",
        "Linear(hidden, hidden, hidden)",
        "Conv(hidden)",
        "Linear(hidden, 4096)",
        "Linear(hidden, 0)",
        "Linear(hidden, -1)",
        "Parameter(99*hidden)",
        "Parameter(__import__)",
        "Linear(hidden, os.getpid())",
        "Parameter(hidden); import os",
        "Parameter()",
        "Parameter(" + "9" * 60 + ")",
        "",
    ],
)
def test_declarations_that_do_not_parse_are_refused(declaration):
    with pytest.raises(CustomCodeError) as caught:
        check(expr("params.W(x_src)"), W=declaration)
    assert caught.value.rule == "declaration"


def test_the_number_of_declarations_is_bounded():
    with pytest.raises(CustomCodeError, match="33 parameters"):
        check(expr("x_src"), **{f"p{i}": "Parameter(hidden)" for i in range(33)})
