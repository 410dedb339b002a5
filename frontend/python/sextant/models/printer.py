"""Prints functions of `nn` and `pos` ops, one op per method.

A `Value` knows its shape, so that a builder reads like a model in PyTorch; None
stands for a dynamic dimension. Every op is labelled with the scope in which it is
made (``layers.0.attention``), which profiles show.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

Shape = tuple[int | None, ...]


@dataclass(frozen=True)
class Value:
    """A tensor (or, with the element ``index``, an index) of the function at hand."""

    name: str
    shape: Shape
    element: str = "f32"

    @property
    def type(self) -> str:
        if self.element == "index":
            return "index"
        return tensor_type(self.shape, self.element)


@dataclass(frozen=True)
class Parameter:
    """A parameter of the model.

    ``init``: as ``nn.parameter`` has it ("normal [0.0, 0.02]"). ``decay``: the
    optimizer decays it, with the settings of its ``group`` if that has a name.
    """

    name: str
    shape: tuple[int, ...]
    init: str
    decay: bool = False
    frozen: bool = False
    floor: float | None = None
    ceiling: float | None = None
    group: str = ""

    @property
    def type(self) -> str:
        return tensor_type(self.shape, "f32")

    def text(self) -> str:
        line = f'  nn.parameter "{self.name}" : {self.type} init {self.init}'
        line += " frozen" if self.frozen else ""
        line += " decay" if self.decay else ""
        line += f' group "{self.group}"' if self.group else ""
        if self.floor is not None:
            line += f" floor {number(self.floor)}"
        if self.ceiling is not None:
            line += f" ceiling {number(self.ceiling)}"
        return line + "\n"


@dataclass(frozen=True)
class Input:
    """An argument that is no parameter; ``dims`` names its dimensions, which must
    agree wherever a name is used. ``random``: "seed" or "step" if dropouts draw from it."""

    name: str
    shape: Shape
    element: str
    dims: tuple[str, ...] = ()
    random: str = ""


def number(value: float) -> str:
    """A float as MLIR reads it."""
    if not math.isfinite(value):
        raise ValueError(f"{value} cannot be written into a model")
    return f"{value:.17e}"


def nested(values: list[str], shape: list[int]) -> str:
    """Elements in their order as a dense attribute has them."""
    if not shape:
        return values[0]
    if 0 in shape:
        return ""
    step = len(values) // shape[0]
    parts = [nested(values[i : i + step], shape[1:]) for i in range(0, len(values), step)]
    return f"[{', '.join(parts)}]"


def tensor_type(shape: Shape, element: str) -> str:
    dims = "".join("?x" if n is None else f"{n}x" for n in shape)
    return f"tensor<{dims}{element}>"


@dataclass
class Function:
    """A function that is being printed. ``products``: the type in which it multiplies."""

    name: str
    inputs: Sequence[Input]
    parameters: Sequence[Parameter]
    products: str = "f32"
    lines: list[str] = field(default_factory=list)
    scope: list[str] = field(default_factory=list)
    made: int = 0

    def __post_init__(self):
        self.values = {
            item.name: Value(f"%arg{i}", tuple(item.shape), getattr(item, "element", "f32"))
            for i, item in enumerate(self._arguments())
        }

    def _arguments(self) -> list[Input | Parameter]:
        return [*self.inputs, *self.parameters]

    def __getitem__(self, name: str) -> Value:
        """An argument by name."""
        return self.values[name]

    @contextlib.contextmanager
    def within(self, label: str):
        """Ops made inside are labelled with ``label`` below the scope at hand."""
        self.scope.append(label)
        yield
        self.scope.pop()

    # ---- printing -----------------------------------------------------------

    def text(self, results: Iterable[tuple[str, Value]], attributes: str = "") -> str:
        """The whole function, which gives the named results."""
        results = list(results)
        arguments = []
        for i, item in enumerate(self._arguments()):
            if isinstance(item, Parameter):
                mark = f'nn.parameter = "{item.name}"'
            else:
                dims = ", ".join(f'"{d}"' for d in item.dims)
                mark = f'exec.name = "{item.name}"' + (f", exec.dims = [{dims}]" if dims else "")
                mark += f', nn.random = "{item.random}"' if item.random else ""
            arguments.append(f"%arg{i}: {self[item.name].type} {{{mark}}}")
        types = ", ".join(f'{v.type} {{exec.name = "{n}"}}' for n, v in results)
        head = f"  func.func @{self.name}({', '.join(arguments)}) -> ({types})"
        if self.products != "f32":
            attributes = ", ".join(filter(None, (attributes, f"nn.products = {self.products}")))
        head += f" attributes {{{attributes}}}" if attributes else ""
        names = ", ".join(v.name for _, v in results)
        ends = ", ".join(v.type for _, v in results)
        body = "".join(f"    {line}\n" for line in self.lines)
        return f"{head} {{\n{body}    return {names} : {ends}\n  }}\n"

    def _name(self) -> str:
        self.made += 1
        return f"%{self.made}"

    def _line(self, text: str) -> None:
        label = f' loc("{".".join(self.scope)}")' if self.scope else ""
        self.lines.append(text + label)

    def _op(self, text: str, operands: Sequence[Value], *shapes: Shape) -> list[Value]:
        """An op whose types are a function type."""
        results = [Value(self._name(), shape, operands[0].element) for shape in shapes]
        names = ", ".join(r.name for r in results)
        takes = ", ".join(o.type for o in operands)
        gives = ", ".join(r.type for r in results)
        self._line(f"{names} = nn.{text} : ({takes}) -> ({gives})")
        return results

    # ---- ops ----------------------------------------------------------------

    def size(self, value: Value, dim: int) -> Value:
        """A dimension as an index."""
        constant = Value(self._name(), (), "index")
        if value.shape[dim] is not None:
            self._line(f"{constant.name} = arith.constant {value.shape[dim]} : index")
            return constant
        result = Value(self._name(), (), "index")
        self._line(f"{constant.name} = arith.constant {dim} : index")
        self._line(f"{result.name} = tensor.dim {value.name}, {constant.name} : {value.type}")
        return result

    def index(self, number: int) -> Value:
        result = Value(self._name(), (), "index")
        self._line(f"{result.name} = arith.constant {number} : index")
        return result

    def _of_indices(self, op: str, left: Value, right: Value) -> Value:
        result = Value(self._name(), (), "index")
        self._line(f"{result.name} = arith.{op} {left.name}, {right.name} : index")
        return result

    def product(self, left: Value, right: Value) -> Value:
        """Of two indices."""
        return self._of_indices("muli", left, right)

    def index_sum(self, left: Value, right: Value) -> Value:
        return self._of_indices("addi", left, right)

    def quotient(self, left: Value, right: Value) -> Value:
        """Of two indices that are not negative, rounded down."""
        return self._of_indices("divsi", left, right)

    def check(self, left: Value, predicate: str, right: Value, message: str) -> None:
        """An error of the call unless two indices are related (`exec.check`), with a message
        that both of them follow."""
        self._line(f'exec.check {left.name} {predicate} {right.name}, "{message}"')

    def integers(self, values: Sequence[int], shape: Shape, element: str) -> Value:
        """A constant of elements in their order."""
        result = Value(self._name(), tuple(shape), element)
        data = nested([str(v) for v in values], [n or 0 for n in shape])
        self._line(f"{result.name} = arith.constant dense<{data}> : {result.type}")
        return result

    def scalar(self, size: Value, element: str) -> Value:
        """An index as a tensor of rank 0."""
        result = Value(self._name(), (), element)
        self._line(f"{result.name} = nn.scalar {size.name} : {result.type}")
        return result

    def floor_divide(self, left: Value, right: Value) -> Value:
        return self._op(f"floor_divide {left.name}, {right.name}", [left, right], left.shape)[0]

    def remainder(self, left: Value, right: Value) -> Value:
        return self._op(f"remainder {left.name}, {right.name}", [left, right], left.shape)[0]

    def require_all(self, op: str, left: Value, right: Value, x: Value, message: str) -> Value:
        """The integers x; an error of the call unless all elements of two tensors, of x's
        shape together, are related by ``op``."""
        compared, every = Value(self._name(), x.shape, "i1"), Value(self._name(), (), "i1")
        result = Value(self._name(), x.shape, x.element)
        self._line(
            f"{compared.name} = nn.{op} {left.name}, {right.name} : "
            f"({left.type}, {right.type}) -> {compared.type}"
        )
        self._line(f"{every.name} = nn.all {compared.name} : ({compared.type}) -> {every.type}")
        self._line(
            f'{result.name} = nn.require {every.name}, {x.name}, "{message}" : '
            f"({every.type}, {x.type}) -> {x.type}"
        )
        return result

    def iota(self, length: Value) -> Value:
        """The i32 numbers 0 .. length - 1, of an index."""
        result = Value(self._name(), (None,), "i32")
        self._line(f"{result.name} = nn.iota length {length.name} : {result.type}")
        return result

    def embedding(self, weight: Value, indices: Value) -> Value:
        result = Value(self._name(), (*indices.shape, weight.shape[1]), weight.element)
        self._line(
            f"{result.name} = nn.embedding {weight.name}, {indices.name} : "
            f"({weight.type}, {indices.type}) -> {result.type}"
        )
        return result

    def linear(self, x: Value, weight: Value, bias: Value | None = None) -> Value:
        shape = (*x.shape[:-1], weight.shape[0])
        text, operands = f"linear {x.name}, {weight.name}", [x, weight]
        if bias is not None:
            text, operands = f"{text} bias {bias.name}", [*operands, bias]
        return self._op(text, operands, shape)[0]

    def layer_norm(self, x: Value, weight: Value, bias: Value, epsilon: float) -> Value:
        rows = (*x.shape[:-1], 1)
        text = f"layer_norm {x.name}, {weight.name}, {bias.name} epsilon {number(epsilon)}"
        return self._op(text, [x, weight, bias], x.shape, rows, rows)[0]

    def rms_norm(self, x: Value, weight: Value, epsilon: float) -> Value:
        rows = (*x.shape[:-1], 1)
        text = f"rms_norm {x.name}, {weight.name} epsilon {number(epsilon)}"
        return self._op(text, [x, weight], x.shape, rows)[0]

    def gelu(self, x: Value, form: str) -> Value:
        return self._op(f"gelu {x.name} form {form}", [x], x.shape)[0]

    def silu(self, x: Value) -> Value:
        return self._op(f"silu {x.name}", [x], x.shape)[0]

    def add(self, left: Value, right: Value) -> Value:
        return self._op(f"add {left.name}, {right.name}", [left, right], left.shape)[0]

    def mul(self, left: Value, right: Value) -> Value:
        return self._op(f"mul {left.name}, {right.name}", [left, right], left.shape)[0]

    def neg(self, x: Value) -> Value:
        return self._op(f"neg {x.name}", [x], x.shape)[0]

    def concat(self, parts: Sequence[Value], dim: int) -> Value:
        lengths = [p.shape[dim] for p in parts]
        known = [n for n in lengths if n is not None]
        shape = list(parts[0].shape)
        shape[dim] = sum(known) if len(known) == len(lengths) else None
        names = ", ".join(p.name for p in parts)
        return self._op(f"concat {names} dim {dim}", parts, tuple(shape))[0]

    def first(self, x: Value, dim: int) -> Value:
        """The first element of a dimension, which stays."""
        shape = list(x.shape)
        shape[dim] = 1
        return self._op(f"slice {x.name} dim {dim} start 0 length 1", [x], tuple(shape))[0]

    def broadcast(self, x: Value, like: Value) -> Value:
        return self._op(f"broadcast {x.name}, {like.name}", [x, like], like.shape)[0]

    def mean(self, x: Value, dim: int) -> Value:
        shape = (*x.shape[:dim], *x.shape[dim + 1 :])
        return self._op(f"mean {x.name} over [{dim}]", [x], shape)[0]

    def sum(self, x: Value, dim: int) -> Value:
        shape = (*x.shape[:dim], *x.shape[dim + 1 :])
        return self._op(f"sum {x.name} over [{dim}]", [x], shape)[0]

    def transpose(self, x: Value, first: int, second: int) -> Value:
        shape = list(x.shape)
        shape[first], shape[second] = shape[second], shape[first]
        return self._op(f"transpose {x.name} {first}, {second}", [x], tuple(shape))[0]

    def reshape(self, x: Value, shape: Shape, sizes: Sequence[Value] = ()) -> Value:
        """``sizes`` gives the dimensions that are None in ``shape``."""
        result = Value(self._name(), tuple(shape), x.element)
        clause = f" sizes({', '.join(s.name for s in sizes)})" if sizes else ""
        self._line(f"{result.name} = nn.reshape {x.name}{clause} : {x.type} -> {result.type}")
        return result

    def log_softmax(self, x: Value) -> Value:
        return self._op(f"log_softmax {x.name}", [x], x.shape)[0]

    def nll_loss(
        self, x: Value, labels: Value, reduction: str, ignore: int = -100
    ) -> Value:
        shape = (x.shape[0],) if reduction == "none" else ()
        text = f"nll_loss {x.name}, {labels.name} reduction {reduction} ignore {ignore}"
        return self._op(text, [x, labels], shape, ())[0]

    def map_rows(
        self,
        x: Value,
        operand: str,
        uses: Sequence[str],
        params: Sequence[Value],
        positions: Value | None = None,
    ) -> Value:
        """Row maps of ``operand`` on x [B, L, C]; positions [1 or B, L, axes]."""
        given = "" if positions is None else f" positions({positions.name} : {positions.type})"
        result = Value(self._name(), x.shape, x.element)
        self._line(
            f"{result.name} = pos.map_rows {x.name} of {operand}{_clauses(uses, params)}"
            f"{given} : {x.type} -> {result.type}"
        )
        return result

    def call(self, symbol: str, operands: Sequence[Value], results: Sequence) -> list[Value]:
        """A call of a function whose results have the shapes and elements of
        ``results``."""
        values = [Value(self._name(), r.shape, r.element) for r in results]
        head = f"{', '.join(v.name for v in values)} = " if values else ""
        self._line(
            f"{head}func.call @{symbol}({', '.join(o.name for o in operands)}) : "
            f"({', '.join(o.type for o in operands)}) -> ({', '.join(v.type for v in values)})"
        )
        return values

    def attention(
        self,
        q: Value,
        k: Value,
        values: Sequence[Value],
        uses: Sequence[str],
        params: Sequence[Value],
        positions: Value | None = None,
    ) -> list[Value]:
        """Attention of q [B, H, L, d] to k [B, Hkv, L, d] and values [B, Hkv, L, dv]: an
        output for each value. ``positions`` are those of queries and keys, [1 or B, L,
        axes]."""
        given = ""
        if positions is not None:
            at = f"({positions.name} : {positions.type})"
            given = f" query_positions{at} key_positions{at}"
        outputs = [
            Value(self._name(), (*q.shape[:-1], v.shape[-1]), q.element) for v in values
        ]
        lse = Value(self._name(), q.shape[:-1], "f32")
        names = [", ".join(v.name for v in part) for part in ([*outputs, lse], values)]
        types = [", ".join(v.type for v in part) for part in (values, outputs)]
        self._line(
            f"{names[0]} = pos.attention {q.name}, {k.name}, ({names[1]})"
            f"{_clauses(uses, params)}{given} : {q.type}, {k.type}, ({types[0]}) -> "
            f"({types[1]}), {lse.type}"
        )
        return outputs


def _clauses(uses: Sequence[str], params: Sequence[Value]) -> str:
    text = f" uses [{', '.join(uses)}]" if uses else ""
    if params:
        names = ", ".join(p.name for p in params)
        types = ", ".join(p.type for p in params)
        text += f" params({names} : {types})"
    return text
