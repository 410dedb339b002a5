"""Kernels of the CPU know no number below 2^-126, and nobody else notices.

On some processors arithmetic with a denormal costs a hundred times that with a zero.
These tests count denormals, which is the same on all of them.
"""

import ctypes
import math

import pytest
import torch
from targets import DTYPES, available

import sextant

pytest.importorskip("sextant._compiler")

LENGTH = 8192
TINY = 2.0**-130


@pytest.fixture(params=DTYPES)
def target(request):
    if not available(request.param):
        pytest.skip(f"this machine cannot run {request.param}")
    return request.param


def mode() -> int:
    """The control bits of MXCSR of this thread, without the flags of what happened."""
    environment = (ctypes.c_uint32 * 8)()  # of x87, then MXCSR
    assert ctypes.CDLL("libm.so.6").fegetenv(environment) == 0
    return environment[7] & ~0x3F


def magnitudes(tensor: torch.Tensor) -> torch.Tensor:
    """Whole numbers in the order of the absolute values: where a thread flushes, floats
    compare as zeros."""
    return tensor.detach().float().contiguous().view(torch.int32) & 0x7FFFFFFF


def denormals(tensor: torch.Tensor) -> int:
    """Of f32, or of bf16, which has the same exponents."""
    found = magnitudes(tensor)
    return int(((found != 0) & (found < 1 << 23)).sum())


def kept_by_pool() -> bool:
    """Whether every thread of the pool makes denormals."""
    return denormals(torch.full((1 << 20,), 2.0**-100) * 2.0**-30) == 1 << 20


def results(query, key, value, uses=(), params=None, target="cpu", **given):
    """Output, log-sum-exp and gradients; those of the results are of order 1."""
    leaves = [t.detach().clone().requires_grad_() for t in (query, key, value)]
    output, lse = sextant.attention(
        *leaves, uses, params, return_lse=True, target=target, **given
    )
    seeds = [torch.randn_like(output), torch.randn_like(lse)]
    torch.autograd.backward([output, lse], seeds)
    found = {"output": output, "lse": lse}
    found |= {f"d {n}": t.grad for n, t in zip(("query", "key", "value"), leaves)}
    return found | {f"d {n}": p.grad for n, p in (params or {}).items() if p.requires_grad}


# Uses, parameters, and the deviation of the scores.
FAR = {
    "plain": (["causal"], {}, 30.0),
    "alibi": (["alibi"], {}, 1.0),
    "kerple_power": (["kerple_power"], {"r1": torch.tensor([0.5]), "r2": torch.tensor([1.5])}, 1.0),
    "forgetting": (["causal", "forgetting"], {"gate": torch.zeros(1, 1, LENGTH)}, 1.0),
    "xpos": (["causal", "xpos"], {}, 30.0),
    "softcap": (["softcap(cap=200.0)"], {}, 60.0),
}
# Whose kernels are others; a pair takes them longer, and fewer keys are enough.
ALL_HEADS = "dape(alibi)"


@pytest.mark.parametrize("name", [*FAR, ALL_HEADS])
def test_no_result_is_denormal(name, target):
    """Probabilities of far keys pass through every magnitude, and so do gradients of
    those that no query sees better: scores of later keys are lower, by up to 400."""
    if name == ALL_HEADS:
        uses, heads, length, deviation = ["dape(alibi, hidden=4)"], 2, 2048, 1.0
        params = sextant.init_params(uses, heads=heads, head_dim=16, requires_grad=True)
    else:
        uses, given, deviation = FAR[name]
        heads, length = 1, LENGTH
        params = {f"{name}.{n}": t.clone().requires_grad_() for n, t in given.items()}
    root = math.sqrt(deviation)
    query, key = (root * torch.randn(1, heads, length, 16) for _ in range(2))
    query[..., 0], key[..., 0] = 1.0, -1600.0 * torch.linspace(0, 1, length)
    value = torch.randn(1, heads, length, 16)
    rows = [t.to(DTYPES[target]) for t in (query, key, value)]
    found = results(*rows, uses, params, target)
    assert {n: denormals(t) for n, t in found.items()} == dict.fromkeys(found, 0)
    assert all(torch.isfinite(t).all() for t in found.values())


def test_denormal_operands_are_zero(target):
    """In every kernel: of values in the forward, and of the gradient of the output in
    what prepares, makes and finishes gradients. A product with 2^120 would show them."""
    dtype = DTYPES[target]
    tiny = torch.full((1, 2, 40, 16), TINY).to(dtype)
    large = torch.full((1, 2, 40, 16), 2.0**60).to(dtype)
    output = sextant.attention(torch.zeros_like(tiny), torch.zeros_like(tiny), tiny, target=target)
    assert not magnitudes(output).any()
    leaves = [torch.zeros_like(tiny), large, large]
    leaves = [t.requires_grad_() for t in leaves]
    output = sextant.attention(*leaves, ["causal", "alibi"], target=target)
    output.backward(tiny)
    for leaf in leaves:
        assert not magnitudes(leaf.grad).any()


def test_reference_runs_in_the_mode_of_its_caller():
    tiny, zero = torch.full((1, 1, 4, 8), TINY), torch.zeros(1, 1, 4, 8)
    output = sextant.attention(zero, zero, tiny, target="reference")
    assert denormals(output) == output.numel()


@pytest.mark.parametrize("flushes", [False, True], ids=["keeps", "flushes"])
def test_mode_of_the_caller_stays(target, flushes):
    """After calls, and after an error of a program whose kernels have run."""
    threads = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        assert kept_by_pool()  # whose threads start now, if they have not, in this mode
        torch.set_flush_denormal(flushes)
        before = mode()
        assert bool(before & 0x8000) == flushes
        rows = [torch.randn(1, 2, 300, 16).to(DTYPES[target]) for _ in range(3)]
        results(*rows, ["causal", "alibi"], target=target)
        assert mode() == before
        far = torch.arange(300, dtype=torch.int32) * 1000
        with pytest.raises(sextant.RuntimeError, match="safe range"):
            results(*rows, ["causal", "xpos"], target=target, query_positions=far, key_positions=far)
        assert mode() == before
        # A thread of the pool has a mode of its own, which it got when it started.
        assert flushes or kept_by_pool()
    finally:
        torch.set_flush_denormal(False)
        torch.set_num_threads(threads)
