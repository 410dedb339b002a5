"""Kernels of a kit: what they compute of inputs that are drawn, and how it is held to C7."""

import torch
from contract_inputs import (
    Inputs,
    RowInputs,
    forward_names,
    gradient_names,
    gradients_of,
    hold,
    hold_rows,
)
from draws import normal


class Kernel:
    """Compiled functions by type, on a device."""

    def __init__(self, images, trained, device):
        self.handles = {d: int(torch.ops.sextant.load(image)) for d, image in images.items()}
        self.trained, self.device = trained, device

    def run(self, dtype, function, operands):
        tensors = [t.to(self.device) for t in operands]
        return torch.ops.sextant.run(self.handles[dtype], function, tensors)

    def close(self):
        for handle in self.handles.values():
            torch.ops.sextant.unload(handle)


class Attention(Kernel):
    """Attention with any encodings in it."""

    def call(self, inputs, function, operands):
        extras = [*inputs.params.values(), *inputs.positions.values()]
        return self.run(inputs.query.dtype, function, [*operands, *extras])

    def forward(self, inputs):
        rows = [inputs.query, inputs.key, *inputs.values]
        *outputs, lse, statistics = self.call(inputs, "forward", rows)
        return [t.cpu() for t in outputs], lse.cpu(), statistics.cpu()

    def backward(self, inputs, results, gradients):
        *outputs, _, statistics = results
        operands = [inputs.query, inputs.key, *inputs.values, *outputs, statistics, *gradients]
        found = self.call(inputs, "backward", operands)
        names = [*gradient_names(inputs), *(f"d {name}" for name in self.trained)]
        return {name: t.cpu() for name, t in zip(names, found)}

    def results(self, inputs):
        """All results by name, those of the backward from the forward's."""
        outputs, lse, statistics = self.forward(inputs)
        results = [*outputs, lse, statistics]
        gradients = self.backward(inputs, results, gradients_of(inputs, lse))
        return dict(zip(forward_names(inputs), results)) | gradients

    def hold(self, inputs, reference, rule):
        return hold(inputs, self.results, reference, rule)

    @staticmethod
    def inputs_of(case, dtype, seed):
        """Inputs of a case: rows and gradients drawn by the seed, exact in the type."""
        shape = case["shape"]

        def rows(name, heads, length, dim):
            drawn = normal(seed, name, (shape["batch"], heads, length, dim))
            return drawn.to(dtype).double()

        heads, kv_heads = shape["heads"], shape["kv_heads"]
        query, key, value_dim = shape["query"], shape["key"], shape["value_dim"]
        return Inputs(
            rows("query", heads, query, shape["head_dim"]),
            rows("key", kv_heads, key, shape["head_dim"]),
            [rows("value", kv_heads, key, value_dim)],
            [rows("output gradient", heads, query, value_dim)],
            normal(seed, "lse gradient", (shape["batch"], heads, query)),
            {n: t.double() if t.is_floating_point() else t for n, t in case["params"].items()},
            dict(enumerate(case["positions"])),
        )


class RowMap(Kernel):
    """Encodings of rows outside of attention: of embeddings, of inputs of projections."""

    def results(self, inputs):
        """Mapped rows and all gradients by name."""
        dtype, params = inputs.rows.dtype, inputs.params.values()
        (rows,) = self.run(dtype, "forward", [inputs.rows, *params])
        found = self.run(dtype, "backward", [inputs.rows, inputs.gradient, *params])
        names = ["d rows", *(f"d {name}" for name in self.trained)]
        return {"rows": rows.cpu()} | {name: t.cpu() for name, t in zip(names, found)}

    def hold(self, inputs, reference, rule):
        return hold_rows(inputs, self.results, reference.results, rule.dtype)

    @staticmethod
    def inputs_of(case, dtype, seed):
        """As of attention."""
        shape = case["shape"]
        extents = shape["batch"], shape["length"], shape["width"]
        rows, gradient = (
            normal(seed, name, extents).to(dtype).double() for name in ("rows", "gradient")
        )
        return RowInputs(rows, gradient, case["params"])


# By what a file says that it holds.
KINDS = {"attention": Attention, "rows": RowMap}
