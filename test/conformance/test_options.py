"""Values of options: those that mean nothing are errors, those at the edge of a range
compute.

Every number that an installed encoding takes stands in one of the tables.
"""

import re

import pytest
import torch
from cases import KERNEL_OPERANDS, Case, compare
from targets import available

import sextant
from sextant import definitions
from sextant.uses import spell_option

# Options choose other IR of the encodings whose machine code test_encodings.py runs.
pytestmark = pytest.mark.quick_code

# By encoding and option: values that are refused, and whole numbers at the edge of
# what is accepted.
REFUSED = {
    "cope": {"positions": [0, -1, 2**24 + 1, 2**31 - 1]},
    "dape": {"hidden": [0, -1, 2**31 - 1], "slope": []},
    "deberta": {"reach": [0, -1, 2**29, 2**31 - 1]},
    "expe": {"channels": [-2, -(2**31)], "start": [], "step": [], "scaled": []},
    "exqpe": {"channels": [-2], "start": [], "step": [], "increment": [], "scaled": []},
    "fire": {"threshold": [-1.0, -512], "hidden": [0, -1, 2**31 - 1]},
    "learned": {
        "rows": [0, -1],
        "train_length": [-1],
        "grid_rows": [-1, 2**31 - 1],
        "grid_columns": [-1, 2**31 - 1],
    },
    "liere": {"axes": [0, -1, 4, 2**31 - 1], "block": [-1], "unit": []},
    "rope": {
        "base": [0, 0.0, -1, -1e4],
        "lanes": [-2, -1, 3],
        "factor": [0.0, -1, -2.5],
        "train_length": [-1],
    },
    "rope_2d": {"theta": [0.0, -100.0]},
    "rope_2d_mixed": {"theta": [0.0, -10.0]},
    "sandwich": {"width": [0, -1, 1, 7, 2**31 - 1]},
    "seqpe": {
        "base": [1, 0, -10, 1025],
        "digits": [0, -1, 31],
        "axes": [0, -1, 9],
        "width": [-1],
        "heads": [-1],
        "blocks": [0, -1, 65],
        "dropout": [-0.5],
        "max_position": [1, 0, -1],
        "alpha": [-0.5],
        "beta": [-0.5],
        "pivots": [0, -1],
        "candidates": [1, -1],
        "windows": [0, -1],
        "offsets": [1, -1],
        "sided": [0, 3],
        "deviation": [-0.02],
    },
    "shaw": {"reach": [-1, 2**30, 2**31 - 1]},
    "sinusoidal": {"base": [0.0, -1.0]},
    "softcap": {"cap": [0, 0.0, -50.0, 1e-60]},
    "swin": {"rows": [0, -1, 2**31 - 1], "columns": [0, -1, 2**31 - 1]},
    "t5_bias": {
        "buckets": [0, -1, 1, 2**31 - 1],
        "max_distance": [0, -1, 1, 2**31 - 1],
    },
    "tape": {
        "hidden": [0, -1],
        "base": [0.0, -1.0],
        "factor": [0.0, -2.5],
        "train_length": [-1],
    },
    "transformer_xl": {"width": [-1, -2, 3, 2**31 - 1]},
    "window": {"size": [0, -1, -(2**31)]},
    "xpos": {"scale_base": [0, -1, 2**31 - 1], "base": [0.0, -1.0]},
}

EDGES = [
    "cope(positions=1)",
    "cope(positions=2)",
    "dape(kerple_log, hidden=1, slope=0)",
    "deberta(reach=1)",
    "fire(threshold=0, hidden=1)",
    "liere(axes=1, block=1)",
    "liere(axes=3, unit=0)",
    "rope(base=1, lanes=2)",
    "rope(base=1e30)",
    "rope(scaling=linear, factor=1e-3)",
    "rope(scaling=ntk_dynamic, train_length=1)",
    "rope_2d(theta=1)",
    "sandwich(width=2)",
    "shaw(reach=0)",
    "softcap(cap=1e-3)",
    "softcap(cap=1e30)",
    "swin(rows=1, columns=1)",
    "t5_bias(buckets=2, max_distance=2)",
    "t5_bias(buckets=4, max_distance=2, bidirectional=true)",
    "t5_bias(buckets=33, max_distance=16777216)",
    "transformer_xl(width=2)",
    "window(size=1)",
    "window(size=2147483647)",
    "window(size=2147483647, two_sided=true)",
    "xpos(scale_base=33554431)",
]


NUMBERS = {
    (e.name, o.name): o
    for e in sextant.encodings()
    for o in e.options
    if o.type != "i1" and not o.choices
}


def refused():
    for name, options in REFUSED.items():
        for option, values in options.items():
            is_real = NUMBERS[name, option].type == "f32"
            always = [1e39, -1e39] if is_real else []
            yield from ((name, option, value) for value in [*values, *always])


def test_no_option_is_left_out():
    assert set(NUMBERS) == {(name, option) for name in REFUSED for option in REFUSED[name]}


@pytest.mark.parametrize("name, option, value", list(refused()))
def test_a_value_that_means_nothing(name, option, value):
    spelled = value if isinstance(value, int) else f"{value:g}"
    says = f"option '{option}' of @{name} is {spelled}"
    with pytest.raises(sextant.CompileError, match=re.escape(says)) as info:
        definitions.signature([f"{name}({option}={value!r})"])
    allowed = NUMBERS[name, option].range if abs(value) < 1e39 else "finite"
    assert f", but must be {allowed}" in str(info.value)


@pytest.mark.parametrize("name, option", [n for n, o in NUMBERS.items() if o.type == "i32"])
def test_a_number_of_more_than_32_bits(name, option):
    says = f"option '{option}' of @{name} takes 'i32', got 100000000000"
    with pytest.raises(sextant.CompileError, match=says):
        definitions.signature([f"{name}({option}=100000000000)"])


@pytest.mark.parametrize("name, option", NUMBERS)
@pytest.mark.parametrize("value", ["inf", "nan", "many", "true"])
def test_what_is_no_number(name, option, value):
    says = f"option '{option}' of @{name} takes '{NUMBERS[name, option].type}', got"
    with pytest.raises(sextant.CompileError, match=says):
        definitions.signature([f"{name}({option}={value})"])


@pytest.mark.parametrize(
    "use, says",
    [
        ("learned(rows=12, grid_rows=4, grid_columns=5)", "got 20, but must be at most 12"),
        ("learned(grid_rows=4)", "grid_columns is 0, but grid_rows is not"),
        ("learned(grid_columns=4)", "grid_rows is 0, but grid_columns is not"),
        ("learned(rows=8, train_length=9)", "got 9, but must be at most 8"),
        ("liere(block=9)", "more lanes than the head: got 9, but must be at most 8"),
        ("rope(scaling=yarn)", "train_length: got 0, but must be at least 1"),
        ("t5_bias(buckets=2, bidirectional=true)", "got 1, but must be at least 2"),
        ("t5_bias(buckets=32, max_distance=16)", "got 16, but must be at least 17"),
    ],
)
def test_values_that_do_not_fit_each_other(use, says):
    name = use.split("(")[0]
    x = torch.zeros(1, 2, 3, 8)
    with pytest.raises(sextant.CompileError, match=f"use '{name}' of @{name}: .*{says}"):
        params = sextant.init_params([use], heads=2, head_dim=8)
        sextant.attention(x, x, x, [use], params)


@pytest.mark.parametrize("use", ["learned(rows=2147483647)", "cope(positions=16777216)"])
def test_a_table_beyond_all_memory(use):
    with pytest.raises(MemoryError, match=r'parameter ".*" of shape \(.*\) takes .* GiB'):
        sextant.init_params([use], heads=2**10, head_dim=2**10)


@pytest.mark.parametrize("use", EDGES)
def test_the_edge_of_a_range(use, seed):
    # Causal: without its threshold fire divides by 1e-6 for keys after the first query.
    compare(Case(use, before=("past=causal",)), "cpu", torch.float32, seed)


# What a choice, or an option, needs to have an effect; nothing without one may be given.
WITH = {
    "linear": {"factor": 2.0},
    "ntk": {"factor": 2.0},
    "ntk_dynamic": {"train_length": 16},
    "yarn": {"factor": 2.0, "train_length": 16},
    "equivariant": {"form": "paper"},
    "tensor": {"form": "paper"},
}


def other_choices():
    """Every choice of every option that is not its default."""
    for info in sextant.encodings():
        if definitions.signature([info.name]).operands - KERNEL_OPERANDS:
            continue
        for option in info.options:
            values = option.choices or ([False, True] if option.type == "i1" else [])
            for value in values:
                if value != option.default:
                    needed = {**WITH.get(value, {}), **WITH.get(option.name, {})}
                    settings = {**needed, option.name: value}
                    given = ", ".join(f"{n}={spell_option(v)}" for n, v in settings.items())
                    yield f"{info.name}({given})"


@pytest.mark.parametrize("use", list(other_choices()))
def test_every_choice(use, seed):
    for target in ["cpu:avx2", "cpu:avx512bf16"]:
        if available(target):
            dtype = torch.bfloat16 if target.endswith("bf16") else torch.float32
            compare(Case(use, query=100, key=130, batch=1), target, dtype, seed)
