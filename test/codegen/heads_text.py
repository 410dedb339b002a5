"""Attention with a score of all heads: module texts, parameters, plain formulas.

Encodings: ``leaky`` is a two-layer perceptron over the scores of all heads and a
host's bias, beside a residual; ``tanh`` the same with a smooth activation; ``mix`` one
matrix over the heads.
"""

import math

import torch
from plain_attention import rotate

_ACTIVATIONS = {
    "leaky": """%a = arith.constant 0.01 : f32
      %size = arith.index_cast %hidden : i32 to index
      %l = tensor.splat %a[%size] : tensor<?xf32>
      %q = arith.mulf %p, %l : tensor<?xf32>
      %r = arith.maximumf %p, %q : tensor<?xf32>""",
    "tanh": "%r = math.tanh %p : tensor<?xf32>",
}


def _perceptron(activation):
    return f"""
  pos.encoding @my_{activation} {{
    %heads = pos.extent heads
    %hidden = pos.option "hidden" : i32 = 8 : i32
    %two = arith.constant 2 : i32
    %both = arith.muli %heads, %two : i32
    %w1 = pos.param "w1" : tensor<?x?xf32> dims(%hidden, %both)
    %b1 = pos.param "b1" : tensor<?xf32> dims(%hidden)
    %w2 = pos.param "w2" : tensor<?x?xf32> dims(%heads, %hidden)
    %b2 = pos.param "b2" : tensor<?xf32> dims(%heads)
    pos.score {{
    ^bb0(%s: tensor<?xf32>):
      %b = pos.host : tensor<?xf32>
      %zero = arith.constant 0 : i32
      %x = pos.contract %w1, %s columns from %zero : tensor<?x?xf32>, tensor<?xf32> -> tensor<?xf32>
      %y = pos.contract %w1, %b columns from %heads : tensor<?x?xf32>, tensor<?xf32> -> tensor<?xf32>
      %z = arith.addf %x, %y : tensor<?xf32>
      %p = arith.addf %z, %b1 : tensor<?xf32>
      {_ACTIVATIONS[activation]}
      %d = pos.contract %w2, %r : tensor<?x?xf32>, tensor<?xf32> -> tensor<?xf32>
      %e = arith.addf %d, %b2 : tensor<?xf32>
      %f = arith.addf %s, %b : tensor<?xf32>
      %t = arith.addf %f, %e : tensor<?xf32>
      pos.yield %t : tensor<?xf32>
    }}
  }}"""


_MIX = """
  pos.encoding @my_mix {
    %heads = pos.extent heads
    %m = pos.param "m" : tensor<?x?xf32> dims(%heads, %heads)
    pos.score {
    ^bb0(%s: tensor<?xf32>):
      %t = pos.contract %m, %s : tensor<?x?xf32>, tensor<?xf32> -> tensor<?xf32>
      pos.yield %t : tensor<?xf32>
    }
  }"""


def module(kind, heads, hidden, dims, extra=(), dtype="f32", positions=False):
    """Functions forward(q, k, v, params) and backward(q, k, v, o, lse, do, dlse, params).

    ``extra``: further encodings without parameters; a window is one of 20.
    ``positions``: both functions take those of queries and keys last.
    """
    d, dv = dims
    options = {"window": ", {size = 20 : i32}"}
    uses = [f'#pos.use<@{e}, "{e}"{options.get(e, "")}>' for e in extra]
    if kind == "mix":
        definition, ranks = _MIX, [2]
        uses.append('#pos.use<@my_mix, "mix">')
    else:
        definition, ranks = _perceptron(kind), [2, 1, 2, 1, 1, 1]
        host = '[#pos.use<@kerple_log, "host">]'
        option = f"{{hidden = {hidden} : i32}}"
        uses.append(f'#pos.use<@my_{kind}, "mlp", {option}, {host}>')
    param_types = [f"tensor<{'?x' * rank}f32>" for rank in ranks]
    names = [f"%p{i}" for i in range(len(ranks))]
    q, o = (f"tensor<?x{heads}x?x{n}x{dtype}>" for n in (d, dv))
    k, v = (f"tensor<?x?x?x{n}x{dtype}>" for n in (d, dv))
    lse, stats = f"tensor<?x{heads}x?xf32>", f"tensor<?x{heads}x?x2xf32>"
    clauses = f"uses [{', '.join(uses)}] params({', '.join(names)} : {', '.join(param_types)})"
    last = ""
    if positions:
        last = ", %qpos: tensor<?x?x1xi32>, %kpos: tensor<?x?x1xi32>"
        clauses += " query_positions(%qpos : tensor<?x?x1xi32>)"
        clauses += " key_positions(%kpos : tensor<?x?x1xi32>)"
    arguments = "".join(f", {n}: {t}" for n, t in zip(names, param_types)) + last
    gradients = ", ".join(f"%g{i}" for i in range(3 + len(ranks)))
    types = ", ".join([q, k, v, *param_types])
    return f"""module {{{definition}
  func.func @forward(%q: {q}, %k: {k}, %v: {v}{arguments}) -> ({o}, {lse}, {stats}) {{
    %o, %l, %s = pos.attention %q, %k, (%v) {clauses} : {q}, {k}, ({v}) -> ({o}), {lse}, {stats}
    return %o, %l, %s : {o}, {lse}, {stats}
  }}
  func.func @backward(%q: {q}, %k: {k}, %v: {v}, %o: {o}, %s: {stats}, %do: {o}, %dl: {lse}{arguments})
      -> ({types}) {{
    {gradients} = pos.attention_backward %q, %k, (%v), (%o), %s, (%do), %dl {clauses}
      gradients [{", ".join(map(str, range(len(ranks))))}]
      : {q}, {k}, ({v}), ({o}), {stats}, ({o}), {lse} -> {q}, {k}, ({v}), {", ".join(param_types)}
    return {gradients} : {types}
  }}
}}"""


def parameters(kind, heads, hidden):
    def uniform(*shape):
        return (2 * torch.rand(*shape) - 1) / math.sqrt(shape[-1])

    if kind == "mix":
        return [uniform(heads, heads)]
    matrices = [uniform(hidden, 2 * heads), uniform(hidden), uniform(heads, hidden)]
    return [*matrices, uniform(heads), torch.rand(heads) + 0.1, torch.rand(heads) + 0.1]


def plain(kind, q, k, v, params, mask=None, rope=False, positions=None):
    """Output and log-sum-exp in plain PyTorch; `mask(i, j)` says what is visible."""
    heads, lq, lk = q.shape[1], q.shape[2], k.shape[2]
    k, v = (t.repeat_interleave(heads // k.shape[1], 1) for t in (k, v))
    i, j = torch.arange(lk - lq, lk)[:, None], torch.arange(lk)[None]
    if rope:
        q, k = rotate(q, lk - lq), rotate(k, 0)
    s = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    if kind == "mix":
        a = torch.einsum("gh,bhij->bgij", params[0], s)
    else:
        w1, b1, w2, b2, r1, r2 = params
        distance = (i - j).abs()[None]
        if positions:
            distance = (positions[0][..., None] - positions[1][:, None]).abs()
        r1, r2 = (r[:, None, None] for r in (r1, r2))
        bias = -r1 * torch.log1p(r2 * distance[:, None])
        x = torch.einsum("nh,bhij->bnij", w1[:, :heads], s)
        x = x + torch.einsum("nh,bhij->bnij", w1[:, heads:], bias) + b1[:, None, None]
        x = torch.nn.functional.leaky_relu(x, 0.01) if kind == "leaky" else x.tanh()
        a = s + bias + torch.einsum("hn,bnij->bhij", w2, x) + b2[:, None, None]
    if mask:
        a = a.masked_fill(~mask(i, j), -torch.inf)
    lse = torch.logsumexp(a, -1)
    p = torch.exp(a - lse.masked_fill(lse == -torch.inf, 0.0)[..., None])
    return p @ v, lse
