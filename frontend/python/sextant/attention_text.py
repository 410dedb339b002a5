"""The module behind `sextant.attention`: two functions around one op.

``@forward(q, k, v..., params..., [query positions, key positions, query tail]) ->
(o..., lse, statistics)``, the last where there is a backward, and ``@backward(q, k,
v..., o..., statistics, do..., dlse, params..., [positions, query tail]) -> (dq, dk,
dv..., gradients of the trained params)``. Only dtype, head dims, encodings, the number
of position axes and the scale are in the text; every other extent is dynamic.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ParamType:
    """A parameter operand: ``element`` is "f32" or "i32"; ``trained`` ones get
    gradients, which are those that a call wants of what the definition trains."""

    name: str
    rank: int
    element: str
    trained: bool

    def text(self, compute: str) -> str:
        element = compute if self.element == "f32" else self.element
        return f"tensor<{'?x' * self.rank}{element}>"


@dataclass(frozen=True)
class AttentionKey:
    """What is compiled into an attention kernel.

    ``dtype``: "f32", "bf16" or "f64". ``uses``: ``#pos.use`` attributes as text.
    ``query_axes``, ``key_axes``: axes of given positions, 0 without. ``has_tail``:
    queries follow that are not given; their number is an operand's extent. ``scale``:
    None for 1 / sqrt(head_dim). ``heads``: compiled in unless 0. ``deterministic``:
    whether gradients are summed up in one order. ``has_long_rows``: heads have so many
    queries that the target may follow from it.
    """

    dtype: str
    head_dim: int
    value_dims: tuple[int, ...]
    uses: tuple[str, ...]
    params: tuple[ParamType, ...]
    definitions: str = ""
    query_axes: int = 0
    key_axes: int = 0
    has_tail: bool = False
    scale: float | None = None
    heads: int = 0
    deterministic: bool = True
    has_long_rows: bool = False


def attention_module(key: AttentionKey, forward: bool = True, backward: bool = False) -> str:
    """The text of the module with the functions that are asked for."""
    functions = []
    if forward:
        functions.append(_forward(key, statistics=backward))
    if backward:
        functions.append(_backward(key))
    attributes = " attributes {pos.long_rows}" if key.has_long_rows else ""
    return f"module{attributes} {{\n{key.definitions}{''.join(functions)}}}\n"


def _types(key: AttentionKey) -> dict[str, str]:
    compute = "f64" if key.dtype == "f64" else "f32"
    heads = key.heads or "?"
    return {
        "query": f"tensor<?x{heads}x?x{key.head_dim}x{key.dtype}>",
        "key": f"tensor<?x?x?x{key.head_dim}x{key.dtype}>",
        "values": ", ".join(f"tensor<?x?x?x{d}x{key.dtype}>" for d in key.value_dims),
        "outputs": ", ".join(f"tensor<?x{heads}x?x{d}x{key.dtype}>" for d in key.value_dims),
        "lse": f"tensor<?x{heads}x?x{compute}>",
        "statistics": f"tensor<?x{heads}x?x2x{compute}>",
        "compute": compute,
    }


def _extras(key: AttentionKey) -> tuple[list[tuple[str, str]], str]:
    """Arguments after the tensors, and the clauses that name them."""
    compute = _types(key)["compute"]
    params = [(f"%p{i}", p.text(compute)) for i, p in enumerate(key.params)]
    clauses = ""
    if key.uses:
        clauses += f" uses [{', '.join(key.uses)}]"
    if params:
        names = ", ".join(name for name, _ in params)
        types = ", ".join(type for _, type in params)
        clauses += f" params({names} : {types})"
    arguments = list(params)
    for name, label, axes in (
        ("%qpos", "query_positions", key.query_axes),
        ("%kpos", "key_positions", key.key_axes),
    ):
        if axes:
            arguments.append((name, f"tensor<?x?x{axes}xi32>"))
            clauses += f" {label}({name} : {arguments[-1][1]})"
    if key.has_tail:
        arguments.append(("%tail", "tensor<?xi32>"))
        clauses += " query_tail(%tail : tensor<?xi32>)"
    return arguments, clauses


def _scale(key: AttentionKey) -> str:
    # A float of MLIR has a dot, which repr leaves out of 1e-05.
    return "" if key.scale is None else f" scale {float(key.scale):.17e}"


def _head(name: str, arguments: list[tuple[str, str]], results: list[str]) -> str:
    listed = ", ".join(f"{n}: {t}" for n, t in arguments)
    return f"  func.func @{name}({listed}) -> ({', '.join(results)}) {{\n"


def _each(key: AttentionKey, name: str, types: str) -> list[tuple[str, str]]:
    """A name per value operand with its type of a list."""
    return [(f"{name}{i}", type) for i, type in enumerate(types.split(", "))]


def _names(pairs: list[tuple[str, str]]) -> str:
    return ", ".join(name for name, _ in pairs)


def _forward(key: AttentionKey, statistics: bool) -> str:
    t = _types(key)
    softmax = ["lse", "statistics"] if statistics else ["lse"]
    names = ", ".join(f"%{name}" for name in softmax)
    types = ", ".join(t[name] for name in softmax)
    extras, clauses = _extras(key)
    values = _each(key, "%v", t["values"])
    outputs = _names(_each(key, "%o", t["outputs"]))
    arguments = [("%q", t["query"]), ("%k", t["key"]), *values, *extras]
    return (
        _head("forward", arguments, [t["outputs"], types])
        + f"    {outputs}, {names} = pos.attention %q, %k, ({_names(values)}){clauses}{_scale(key)}\n"
        + f"      : {t['query']}, {t['key']}, ({t['values']}) -> ({t['outputs']}), {types}\n"
        + f"    return {outputs}, {names} : {t['outputs']}, {types}\n  }}\n"
    )


def _backward(key: AttentionKey) -> str:
    t = _types(key)
    extras, clauses = _extras(key)
    values = _each(key, "%v", t["values"])
    outputs = _each(key, "%o", t["outputs"])
    seeds = _each(key, "%do", t["outputs"])
    arguments = [("%q", t["query"]), ("%k", t["key"]), *values]
    arguments += [*outputs, ("%statistics", t["statistics"]), *seeds]
    arguments += [("%dlse", t["lse"]), *extras]
    trained = [i for i, p in enumerate(key.params) if p.trained]
    results = ["%dq", "%dk"] + [f"%dv{i}" for i in range(len(values))]
    results += [f"%dp{i}" for i in trained]
    param_types = [key.params[i].text(t["compute"]) for i in trained]
    types = [t["query"], t["key"], t["values"], *param_types]
    tail = "".join(f", {p}" for p in param_types)
    order = "" if key.deterministic else " unordered"
    return (
        _head("backward", arguments, types)
        + f"    {', '.join(results)} = pos.attention_backward %q, %k, ({_names(values)}), "
        + f"({_names(outputs)}), %statistics, ({_names(seeds)}), %dlse\n"
        + f"     {clauses} gradients [{', '.join(map(str, trained))}]{_scale(key)}{order}\n"
        + f"      : {t['query']}, {t['key']}, ({t['values']}), ({t['outputs']}), {t['statistics']},\n"
        + f"        ({t['outputs']}), {t['lse']}\n"
        + f"      -> {t['query']}, {t['key']}, ({t['values']}){tail}\n"
        + f"    return {', '.join(results)} : {', '.join(types)}\n  }}\n"
    )


def map_rows_module(
    dtype: str,
    width: int,
    operand: str,
    uses: tuple[str, ...],
    params: tuple[ParamType, ...],
    definitions: str = "",
    axes: int = 0,
    backward: bool = False,
) -> str:
    """The module behind `sextant.map_rows`: rows [B, L, width] of ``operand``."""
    compute = "f64" if dtype == "f64" else "f32"
    rows = f"tensor<?x?x{width}x{dtype}>"
    extras = [(f"%p{i}", p.text(compute)) for i, p in enumerate(params)]
    clauses = f" of {operand} uses [{', '.join(uses)}]"
    if extras:
        names = ", ".join(name for name, _ in extras)
        clauses += f" params({names} : {', '.join(type for _, type in extras)})"
    if axes:
        extras.append(("%pos", f"tensor<?x?x{axes}xi32>"))
        clauses += f" positions(%pos : {extras[-1][1]})"
    text = (
        _head("forward", [("%x", rows), *extras], [rows])
        + f"    %y = pos.map_rows %x{clauses} : {rows} -> {rows}\n"
        + f"    return %y : {rows}\n  }}\n"
    )
    if backward:
        trained = [i for i, p in enumerate(params) if p.trained]
        results = ["%dx"] + [f"%dp{i}" for i in trained]
        types = [rows] + [params[i].text(compute) for i in trained]
        text += (
            _head("backward", [("%x", rows), ("%dy", rows), *extras], types)
            + f"    {', '.join(results)} = pos.map_rows_backward %x, %dy{clauses}"
            + f" gradients [{', '.join(map(str, trained))}]\n"
            + f"      : {rows}, {rows} -> {', '.join(types)}\n"
            + f"    return {', '.join(results)} : {', '.join(types)}\n  }}\n"
        )
    return f"module {{\n{definitions}{text}}}\n"
