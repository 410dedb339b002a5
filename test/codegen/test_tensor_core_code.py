"""What kernels on tensor cores take of a GPU, as NVIDIA's assembler makes it: counted
in machine code, since no GPU is at hand. Limits are what was counted and a tenth, and at
most what a kernel that is bound by its products can spare."""

import os
import re
from pathlib import Path

import pytest

from sextant import definitions
from sextant.attention_text import AttentionKey, attention_module
from sextant.plans import param_types

ROOT = Path(__file__).resolve().parents[2]
PER_HEAD = "tensor<?xf32>"


def measure(sass, model, target="cuda:sm_80"):
    """Of the kernel of many rows."""
    (counts,) = [c for c in sass.measure(model, target) if not c.kernel.endswith("_of_few")]
    print(counts)
    return counts


@pytest.fixture(autouse=True)
def tools(monkeypatch):
    build = Path(os.environ.get("SEXTANT_BUILD_DIR", ROOT / "build"))
    monkeypatch.setenv("PATH", f"{build / 'bin'}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.parametrize(
    "uses, params, dims, most, units",
    [
        ([], [], (64, 64), 9.9, (1.07, 0.0)),
        (["causal"], [], (64, 64), 10.2, (1.07, 0.0)),
        # A table costs a load for some three scores; 11.5 is the most that it may.
        (["alibi"], [PER_HEAD], (64, 64), 11.5, (1.07, 0.35)),
        (["causal", "alibi"], [PER_HEAD], (64, 64), 11.5, (1.07, 0.35)),
        (["softcap"], [], (64, 64), 13.2, (2.07, 0.0)),
        ([], [], (128, 128), 15.2, (1.13, 0.0)),
    ],
    ids=["plain", "causal", "alibi", "both", "softcap", "plain-128"],
)
def test_instructions_per_score(sass, uses, params, dims, most, units):
    counts = measure(sass, sass.attention(uses, params, dims))
    assert counts.spills == 0
    assert counts.per_score() <= most
    mufu, loads = units
    assert counts.per_score("MUFU") <= mufu
    assert counts.per_score("LDS") <= loads


@pytest.mark.parametrize("uses, params, most", [
    ([], [], 9.9),
    (["causal"], [], 10.2),
    (["alibi"], ["tensor<?xf32>"], 11.5),
    (["causal", "kerple_log"], ["tensor<?xf32>", "tensor<?xf32>"], 11.9),
    (["causal", "t5_bias"], ["tensor<?x?xf32>", "tensor<?xf32>"], 11.9),
    (["causal", "softcap"], [], 13.9),
], ids=str)  # fmt: skip
def test_three_blocks_of_a_forward(sass, uses, params, most):
    """The registers of a multiprocessor hold three blocks of 128 threads, of sm_90a, whose
    shared memory holds them, too."""
    counts = measure(sass, sass.attention(uses, params, (64, 64)), "cuda:sm_90a")
    assert counts.registers <= 168
    assert counts.spills == 0
    assert counts.per_score("LDL", "STL") == 0
    assert counts.per_score() <= most


@pytest.mark.parametrize("uses, params", [
    (["causal", "window", "alibi"], ["tensor<?xf32>"]),
    (["causal", "alibi", "softcap"], ["tensor<?xf32>"]),
], ids=str)  # fmt: skip
def test_two_blocks_of_a_forward_that_would_spill(sass, uses, params):
    """As ptxas finds out: see ResidentBlocks.h."""
    counts = measure(sass, sass.attention(uses, params, (64, 64)), "cuda:sm_90a")
    assert counts.registers > 168
    assert counts.spills == 0


def of_all_heads(use, heads, backward):
    """The text of a direction whose score is of so many heads, of dim 64."""
    found = definitions.signature([use])
    trained = tuple(p.name for p in found.params if p.trained) if backward else None
    types = param_types(found, trained)
    key = AttentionKey("bf16", 64, (64,), found.uses, types, found.definitions, heads=heads)
    return attention_module(key, forward=not backward, backward=backward)


# Beside these instructions loops over rows of weights run in each pass.
@pytest.mark.parametrize("use, heads, backward, target, most, spills", [
    ("talking_heads", 12, False, "cuda:sm_80", 800, 0),
    ("talking_heads", 16, False, "cuda:sm_90a", 900, 0),
    ("dape(kerple_log)", 12, False, "cuda:sm_80", 1000, 0),
    ("dape(kerple_log)", 16, False, "cuda:sm_90a", 1200, 0),
    ("talking_heads", 12, True, "cuda:sm_80", 1400, 0),
    ("talking_heads", 16, True, "cuda:sm_90a", 1500, 0),
    ("dape(kerple_log)", 8, True, "cuda:sm_80", 1900, 0),
    ("dape(kerple_log)", 16, True, "cuda:sm_90a", 2600, 546),
])  # fmt: skip
def test_scores_of_all_heads(sass, use, heads, backward, target, most, spills):
    """Of a thread 8 scores of each of its heads, and one of all of them."""
    counts = measure(sass, of_all_heads(use, heads, backward), target)
    assert counts.scores == 8 * -(-heads // 8)
    assert counts.spills <= spills
    assert sum(counts.loop.values()) <= most


@pytest.mark.parametrize("dim", [64, 128])
def test_what_is_summed_up_is_seldom_scaled(sass, dim):
    """Scaling the output is no part of the loop but for its branch: it would be a
    multiplication for each of its elements."""
    counts = measure(sass, sass.attention([], [], (dim, dim)))
    assert sum(v for k, v in counts.loop.items() if k.startswith("FMUL")) <= 8


@pytest.mark.parametrize(
    "target, dim", [("cuda:sm_80", 64), ("cuda:sm_90a", 64), ("cuda:sm_90a", 128)]
)
def test_what_there_is_of_dq_comes_by_copies(sass, target, dim):
    """And no load waits for it, where shared memory has room without a block less."""
    counts = measure(sass, sass.attention_backward([], [], (dim, dim)), target)
    assert counts.spills == 0
    assert counts.per_score("LDG") == 0
    # Two operands that pass, dQ, and three statistics.
    assert counts.per_score("LDGSTS") >= 9 / 32


@pytest.mark.parametrize("uses", [["causal", "alibi"], ["causal", "fire"]], ids=["alibi", "fire"])
def test_no_sum_of_a_tile_waits_for_what_there_is_of_it(sass, uses):
    """Sums over offsets and queries are added to by atomics that give nothing back."""
    params = FIRE if "fire" in uses else [PER_HEAD]
    counts = measure(sass, sass.attention_backward(uses, params, (64, 64)), "cuda:sm_90a")
    assert counts.per_score("LDG") == 0
    assert counts.per_score("REDG") > 0


def test_a_table_at_128(sass):
    dims = (128, 128)
    counts = measure(sass, sass.attention(["alibi"], [PER_HEAD], dims))
    assert counts.spills == 0
    assert counts.per_score("LDL", "STL") == 0
    assert counts.per_score() <= 21.2


# Of a multiprocessor of sm_80; a block takes 1 KiB more than it asks for.
SHARED, RESERVED = 164 << 10, 1 << 10


@pytest.mark.parametrize(
    "uses, params, dims, most",
    [
        ([], [], (64, 64), 20.5),
        (["causal", "alibi"], [PER_HEAD], (64, 64), 25.2),
        ([], [], (128, 128), 31.8),
        (["causal", "alibi"], [PER_HEAD], (256, 256), 58.6),
    ],
    ids=["plain", "both", "plain-128", "both-256"],
)
def test_a_forward_of_few_queries_waits_for_much_memory(sass, uses, params, dims, most):
    """Blocks fill the shared memory. More than four fifths of it are for tiles of keys and
    values, half of which are on their way: more than the 40 KiB that hide the latency of
    memory."""
    (counts,) = [
        c for c in sass.measure(sass.attention(uses, params, dims), "cuda:sm_80")
        if c.kernel.endswith("_of_few")
    ]  # fmt: skip
    print(counts)
    assert counts.spills == 0
    assert counts.per_score("LDL", "STL") == 0
    assert counts.per_score() <= most
    resident = SHARED // (counts.shared + RESERVED)
    assert resident * counts.shared >= 2 * (40 << 10) * 5 / 4


@pytest.mark.parametrize(
    "target, dim, warps",
    [("cuda:sm_80", 64, 8), ("cuda:sm_80", 80, 6), ("cuda:sm_90a", 32, 16),
     ("cuda:sm_90a", 64, 11), ("cuda:sm_90a", 96, 7), ("cuda:sm_90a", 128, 5)],
)  # fmt: skip
def test_as_many_warps_of_few_queries_as_shared_memory_holds(sass, target, dim, warps):
    """Each has 16 queries, and 32 keys with their values twice."""
    found = sass.measure(sass.attention([], [], (dim, dim)), target)
    (counts,) = [c for c in found if c.kernel.endswith("_of_few")]
    queries, tile = (rows * (2 * dim + 16) for rows in (16, 64))
    assert counts.shared == warps * (-(-queries // 128) * 128 + 2 * tile)
    assert counts.spills == 0


@pytest.mark.parametrize(
    "uses, params, dims, most, spills",
    [
        ([], [], (64, 64), 18.8, 0),
        (["causal"], [], (64, 64), 19.2, 0),
        # With the gradient of the table; what a mask hides is looked for once per tile.
        (["alibi"], [PER_HEAD], (64, 64), 22.0, 0),
        (["causal", "alibi"], [PER_HEAD], (64, 64), 22.0, 0),
        ([], [], (128, 128), 29.6, 0),
        (["causal"], [], (128, 128), 30.1, 64),  # outside of the loop
        (["causal", "alibi"], [PER_HEAD], (128, 128), 37.0, 0),
        (["alibi"], [PER_HEAD], (256, 256), 53.0, 0),
    ],
    ids=["plain", "causal", "alibi", "both", "plain-128", "causal-128", "both-128", "alibi-256"],
)
def test_instructions_of_a_backward(sass, uses, params, dims, most, spills):
    """Of a head dim of 128 there are twice the products for a score. Addresses and numbers of
    items take so few registers that nothing spills."""
    model = sass.attention_backward(uses, params, dims)
    counts = measure(sass, model)
    assert counts.spills <= spills
    assert counts.per_score("LDL", "STL") == 0
    assert counts.per_score() <= most
    assert counts.per_score("MUFU") <= 1.01


@pytest.mark.parametrize(
    "target, uses, params, dim, most, loads, busy",
    [
        ("cuda:sm_90a", [], [], 96, 24.0, 0.46, 1.6),
        ("cuda:sm_90a", [], [], 128, 28.4, 0.41, 1.4),
        ("cuda:sm_90a", ["causal", "alibi"], [PER_HEAD], 128, 32.4, 0.41, 1.45),
        ("cuda:sm_80", ["softcap"], [], 64, 31.5, 0.51, 1.8),
    ],
    ids=["plain-96", "plain-128", "both-128", "softcap"],
)
def test_warps_that_share_columns_load_less(sass, target, uses, params, dim, most, loads, busy):
    """Where a thread has no room for the sums of 32 keys: four matrices for so many products,
    0.55 with warps of 16 keys and all queries of a tile at a head dim of 128, which kept
    shared memory busy for 1.7 of the clocks of products."""
    counts = measure(sass, sass.attention_backward(uses, params, (dim, dim)), target)
    assert counts.spills == 0
    assert counts.per_score("LDL", "STL") == 0
    assert counts.per_score() <= most
    assert counts.per_score("LDSM") <= loads * counts.per_score("HMMA")
    assert counts.clocks("H200")["shared memory"] <= busy


@pytest.mark.parametrize(
    "direction, most",
    [("attention", 12.8), ("attention_backward", 26.8)],
    ids=["forward", "backward"],
)
def test_columns(sass, direction, most):
    """As many as rows have elements: half more products than without them, forward, and no
    other instruction of the loop but for copies."""
    make = getattr(sass, direction)
    text = make(["causal", "seqpe"], ["tensor<?x?x?x?xf32>"] * 2, (64, 64))
    counts = measure(sass, text)
    assert counts.spills == 0
    assert counts.per_score() <= most


@pytest.mark.parametrize("uses, params, axes, dim, most", [
    (["swin"], ["tensor<?x?xf32>"], 2, 32, 27.5),
    (["swin"], ["tensor<?x?xf32>"], 2, 64, 34.5),
    (["causal", "kerple_log"], [PER_HEAD] * 2, 1, 64, 38.5),
], ids=str)  # fmt: skip
def test_sums_over_given_positions(sass, uses, params, axes, dim, most):
    """An addition for each score, which gives nothing back: see PositionSums.h."""
    text = sass.attention_backward(uses, params, (dim, dim), axes=axes)
    counts = measure(sass, text)
    assert counts.per_score("RED", "REDG") == 1
    assert counts.per_score() <= most


@pytest.mark.parametrize("direction", ["attention", "attention_backward"])
def test_elements_of_f16_take_what_those_of_bf16_do(sass, direction):
    uses, params = ["causal", "alibi"], [PER_HEAD]
    f16, bf16 = (
        measure(sass, getattr(sass, direction)(uses, params, (64, 64), element))
        for element in ("f16", "bf16")
    )
    assert f16.per_score("HMMA") == bf16.per_score("HMMA")
    assert f16.per_score() <= 1.02 * bf16.per_score()
    assert f16.spills <= bf16.spills


FIRE = ["tensor<f32>"] * 2 + ["tensor<?xf32>"] * 2 + ["tensor<?x?xf32>", "tensor<?xf32>"]


@pytest.mark.parametrize(
    "target, direction, most",
    [
        ("cuda:sm_80", "attention", 12.9),
        ("cuda:sm_90a", "attention", 13.6),
        ("cuda:sm_80", "attention_backward", 33.0),
        ("cuda:sm_90a", "attention_backward", 35.1),
    ],
    ids=["forward", "forward-90", "backward", "backward-90"],
)
def test_a_function_of_hinges_on_one_line(sass, target, direction, most):
    """Most tiles lie in the segment in which the one before lay: there the function is an
    instruction per score, and its gradients are those of a table and of a vector."""
    counts = measure(sass, getattr(sass, direction)(["causal", "fire"], FIRE, (64, 64)), target)
    assert counts.per_score() <= most
    # What several segments take, and finding them, spills around the loop.
    assert counts.per_score("LDL", "STL") <= 0.3


@pytest.mark.parametrize("target", ["cuda:sm_80", "cuda:sm_90a"])
@pytest.mark.parametrize(
    "direction, of_scores, of_gradients",
    [("attention", 83, 83), ("attention_backward", 83, 242)],
    ids=["forward", "backward"],
)
def test_knots_of_a_function_of_hinges(sass, target, direction, of_scores, of_gradients):
    """In a tile of several segments a knot takes two instructions of a score, and six of its
    gradients, and some of 32 scores together. Where arguments are no finite numbers half as
    many scores wait in registers."""
    counts = measure(sass, getattr(sass, direction)(["causal", "fire"], FIRE, (64, 64)), target)
    assert any(number <= of_scores for number in counts.inside if number > 60)
    assert max(counts.inside) <= of_gradients


def test_a_payload_divides_by_no_constant(sass):
    """Nor does its pullback: it multiplies, once by several constants and without a branch
    for rare numbers. 1 - t^2 of its tanh takes one more exponential."""
    model = sass.attention_backward(["softcap"], [], (64, 64))
    counts = measure(sass, model)
    assert counts.per_score("FCHK") == 0
    assert counts.spills == 0
    assert counts.per_score() <= 33.0
    assert counts.per_score("FMUL") <= 10.5
    assert counts.per_score("MUFU") <= 3.01


# Functions of a score as MLIR, and what they may take of it, forward and backward: what was
# counted and a tenth.
FUNCTIONS = {
    "exp": ("%r = math.exp %score : f32", 13.2, 26.7),
    "log1p": ("%a = math.absf %score : f32\n%r = math.log1p %a : f32", 20.9, 43.5),
    "sin": ("%r = math.sin %score : f32", 18.7, 33.4),
    "divide": ("%a = arith.addf %score, %two : f32\n%r = arith.divf %score, %a : f32", 15.4, 35.8),
    "sqrt": ("%a = math.sqrt %score : f32\n%r = arith.addf %score, %a : f32", 14.3, 34.7),
    "power": ("%a = math.absf %score : f32\n%r = math.powf %a, %half : f32", 16.5, 42.0),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_scores_are_instructions(sass, tmp_path, monkeypatch, name):
    """As polynomials and full divisions an exponential took 29 more of a forward than a sum
    does, a power 153."""
    text, *most = FUNCTIONS[name]
    (tmp_path / "function.mlir").write_text(
        "pos.encoding @function {\n  pos.score {\n  ^bb0(%score: f32):\n"
        "    %two = arith.constant 2.0 : f32\n    %half = arith.constant 1.5 : f32\n"
        f"    {text}\n    pos.yield %r : f32\n  }}\n}}\n"
    )
    monkeypatch.setenv("SEXTANT_PATH", str(tmp_path))
    for direction, limit in zip((sass.attention, sass.attention_backward), most):
        counts = measure(sass, direction(["function"], [], (64, 64)))
        assert counts.spills <= 12
        assert counts.per_score("LDL", "STL", "FCHK") == 0
        assert counts.per_score() <= limit


@pytest.mark.parametrize(
    "direction, most",
    [("attention", 1300), ("attention_backward", 3900)],
    ids=["forward", "backward"],
)
def test_a_large_payload_stands_in_a_loop(sass, tmp_path, monkeypatch, direction, most):
    """Of 60 operations, written once for 8 scores. Written for each score it would be 4000
    and 15000 instructions, and what it makes of all scores would wait in memory, 16 KiB."""
    lines = ["%x0 = arith.addf %score, %score : f32"]
    for step in range(20):
        lines += [
            f"%c{step} = arith.constant 0.{step + 10} : f32",
            f"%s{step} = arith.mulf %x{step}, %c{step} : f32",
            f"%m{step} = arith.maximumf %s{step}, %score : f32",
            f"%x{step + 1} = arith.mulf %m{step}, %x{step} : f32",
        ]
    body = "\n    ".join(lines)
    (tmp_path / "large.mlir").write_text(
        f"""pos.encoding @large {{
  pos.score {{
  ^bb0(%score: f32):
    {body}
    pos.yield %x20 : f32
  }}
}}
"""
    )
    monkeypatch.setenv("SEXTANT_PATH", str(tmp_path))
    text = getattr(sass, direction)(["large"], [], (64, 64))
    counts = measure(sass, text)
    assert counts.spills == 0
    assert sum(counts.loop.values()) <= most


def test_products_bound_the_forward(sass):
    """By a model of rates: other units of an A100 are busy for less time."""
    counts = measure(sass, sass.attention([], [], (64, 64)))
    clocks = counts.clocks("A100")
    assert clocks["issue"] <= 0.68
    assert clocks["shared memory"] <= 0.75
    assert clocks["MUFU"] <= 0.55


SHARED_OF_BLOCK = re.compile(
    r"func @attention_\w*?(forward|backward)_fragments\w*_shared\(.*?\{\s*%\w+ = arith.constant (\d+)",
    re.DOTALL,
)


BOTH = {"forward", "backward"}


@pytest.mark.parametrize(
    "target, most, directions",
    [
        ("sm_80", 163, {64: BOTH, 128: BOTH, 256: BOTH}),
        ("sm_86", 99, {64: BOTH, 128: BOTH, 160: BOTH, 192: {"forward"}, 256: set()}),
        ("sm_90a", 227, {128: BOTH, 256: BOTH}),
    ],
)
def test_a_block_has_the_shared_memory_that_it_asks_for(sass, target, most, directions):
    """What no tile is small enough for is computed by warps: a launch never fails for it."""
    for dim, expected in directions.items():
        found = {}
        for write in (sass.attention, sass.attention_backward):
            model = write(["causal", "alibi"], [PER_HEAD], (dim, dim))
            options = (f"--target=cuda:{target}", "--emit=kernel")
            text = sass.run("sextant-compile", "-", *options, text=model).stdout
            for direction, taken in SHARED_OF_BLOCK.findall(text):
                found[direction] = max(found.get(direction, 0), int(taken))
        assert set(found) == expected, dim
        assert max(found.values(), default=0) <= most << 10, (dim, found)
