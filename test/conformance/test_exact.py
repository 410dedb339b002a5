"""Small integers, in which nothing rounds: faults that hide below a tolerance.

Each query sees one key, drawn anew: its probability is 1, its log-sum-exp is the score
of exactly that pair, and no gradient mixes two keys. With integers as operands and
parameters and a scale of 1/2 all results are multiples of a power of two; the reference
says which, where its f32 and its f64 agree in every bit (an encoding with a cosine in
its score keeps its output and loses its scores). Which results may round is written
down by encoding, so that none drops out of the comparison unseen. A kernel goes through base 2, which
rounds at 2^-23 of a score. A wrong index, a scale or a share of a row's sum of products
that is off by a percent moves a result by more than a thousand times that.
"""

import math

import attention_contract
import pytest
import targets
import torch
from attention_contract import Inputs
from cases import Case, make_inputs, takes_groups

import sextant
from sextant import definitions

# Indices and factors are those of the IR; machine code of the same encodings is that of
# users in test_encodings.py.
pytestmark = pytest.mark.quick_code
TOLERANCE = 2.0**-13
# 2^-23 of it is well below.
LARGEST = 2.0**8
# Of dape some tenth of all draws have larger scores.
DRAWS = 5
# Names of results and parameters that round, by encoding: what is a function of a score or
# a coordinate (a cosine, a logarithm, a root), and all gradients of scores that are large.
# Of an encoding that is not here every result is compared.
ROUNDED = {
    "cope": "lse query key table",
    "dape": "lse query key w1 b1 w2",
    "deberta": "lse query key kr qr",
    "fire": "lse query key value c mult w1 b1 w2",
    "forgetting": "lse query key value gate",
    "kerple_log": "lse r1 r2",
    "kerple_multiplicative": "lse query key value r1 r2 r3 r4",
    "kerple_power": "lse query key value r1 r2",
    "liere": "lse query key gen",
    "rope": "lse query key",
    "rope_2d": "lse query key",
    "rope_2d_mixed": "lse query key freqs",
    "sandwich": "lse",
    "softcap": "lse query key",
    "transformer_xl": "lse query v wr",
    "xpos": "lse query key",
}
# In f32 units operands of bf16 are converted on the way: for a plain score, for rows of
# tables, and for scores of all heads, whose kernels are others.
OF_BF16_IN_F32_UNITS = ["alibi", "shaw", "talking_heads"]


@sextant.mask
def paired(at, partner: sextant.Param("batch", "key", integer=True, given=True)):
    return at.key == partner[at.batch, at.query]


def integers(case: Case, seed: int) -> Inputs:
    inputs = make_inputs(case, seed)
    draw = torch.Generator().manual_seed(seed)

    def whole(t: torch.Tensor, low: int = -2) -> torch.Tensor:
        return torch.randint(low, low + 5, t.shape, generator=draw).double()

    floors = {p.name: p.floor for p in definitions.signature(case.uses).params}
    frozen = {p.name for p in definitions.signature(case.uses).params if p.made}
    params = {}
    for name, t in inputs.params.items():
        if t.dtype.is_floating_point and name not in frozen:
            low = floors[name]
            t = whole(t, -2 if low is None else math.ceil(low))
        params[name] = t
    # Each query has a partner among the keys before it: an encoding may ask for that.
    last = torch.arange(case.key) + 1
    partner = (torch.rand(case.batch, case.key, generator=draw) * last).floor().int()
    params["paired.partner"] = partner
    return Inputs(
        whole(inputs.query),
        whole(inputs.key),
        [whole(inputs.values[0])],
        [whole(inputs.output_grads[0])],
        whole(inputs.lse_grad),
        params,
        inputs.positions,
        case.scale,
    )


def holds_exactly(encoding: str, target: str, dtype: torch.dtype, seed: int) -> None:
    """Networks may turn small integers into large scores, now and then: then others do."""
    for draw in range(DRAWS):
        dropped, are_small = compare_exactly(encoding, target, dtype, seed + draw)
        if not dropped or are_small:
            break
    assert not dropped, (
        f"{encoding} on {target} in {dtype}: {sorted(dropped)} were not compared: they round, "
        "or scores are large; where the formula makes them so, name them in ROUNDED"
    )


def compare_exactly(
    encoding: str, target: str, dtype: torch.dtype, seed: int
) -> tuple[set[str], bool]:
    """The results that ought to have been compared and were not, and whether scores are
    small."""
    group = 2 if takes_groups(encoding) else 1
    case = Case(encoding, batch=2, heads=2, kv_heads=2 // group, query=150, key=300,
                head_dim=16, value_dim=8, scale=0.5)  # fmt: skip
    uses = [*case.uses, paired]
    inputs = integers(case, seed)
    found = {}
    for kind in (torch.float64, torch.float32):
        given = inputs.cast(kind)
        found[kind] = attention_contract.reference_results(uses, given)
    got = attention_contract.run(uses, inputs.cast(dtype), target)
    exact = []
    # A probability from a large score is off by what base 2 rounds of it.
    lse = found[torch.float64]["lse"]
    are_small = lse[lse.isfinite()].abs().max() < LARGEST
    for name, want in found[torch.float64].items():
        if name not in ("output", "lse") and not are_small:
            continue
        stored = want.to(got[name].dtype).double()
        if not torch.equal(want, found[torch.float32][name]) or not torch.equal(want, stored):
            continue
        exact.append(name)
        mine = got[name].double()
        difference = torch.where(mine == want, 0.0, (mine - want).abs())
        wrong = ~(difference <= TOLERANCE * want.abs().clamp(min=1))
        assert not wrong.any(), (
            f"{encoding} on {target} in {dtype}: {name} at {wrong.nonzero()[0].tolist()}: "
            f"{mine[wrong][0]:.8g}, not {want[wrong][0]:.8g}; {int(wrong.sum())} of {wrong.numel()}"
        )
    print("exact:", ", ".join(exact))
    may_round = ROUNDED.get(encoding, "").split()
    dropped = set(found[torch.float64]) - set(exact)
    dropped = {n for n in dropped if n.removeprefix("d ").split(".")[-1] not in may_round}
    return dropped, bool(are_small)


@pytest.mark.parametrize("target", targets.CPU)
def test_small_integers(encoding, target, seed):
    holds_exactly(encoding, target, targets.DTYPES[target], seed)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_small_integers_in_tiles(encoding, dtype, seed):
    holds_exactly(encoding, targets.runnable(targets.AMX), dtype, seed)


@pytest.mark.parametrize("name", OF_BF16_IN_F32_UNITS)
def test_small_integers_of_bf16_in_f32_units(name, f32_target, seed):
    holds_exactly(name, f32_target, torch.bfloat16, seed)
