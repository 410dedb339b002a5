"""SeqPE: attention with given embeddings of positions against plain PyTorch in float64
(seqpe_model.py), and the parts of that reference against each other."""

import pytest
import seqpe_model
import torch
from seqpe_model import Encoder

import sextant

# Rounding of f32: sums of up to 100 products of order 1, and gradients of a sum of
# 10^4 squares.
TOLERANCE = {torch.float64: dict(atol=1e-10, rtol=1e-10), torch.float32: dict(atol=1e-4, rtol=1e-4)}


def drawn(shape, dtype):
    batch, heads, kv_heads, queries, keys, dim = shape
    shapes = [(batch, heads, queries, dim)] + [(batch, kv_heads, keys, dim)] * 2
    return [torch.randn(s, dtype=dtype, requires_grad=True) for s in shapes]


# (batch, heads, heads of keys, queries, keys, head dim), and the batch of e^q and e^k.
SHAPES = [
    ((2, 3, 3, 37, 37, 16), 1),
    ((2, 3, 3, 37, 37, 16), 2),
    ((1, 3, 3, 5, 130, 16), 1),
    ((3, 3, 3, 1, 1, 16), 1),
]


@pytest.mark.parametrize("target", ["reference", "cpu"])
@pytest.mark.parametrize("form", seqpe_model.FORMS)
def test_outputs_and_all_gradients(form, target):
    dtype = torch.float64 if target == "reference" else torch.float32
    grouped = [((2, 4, 2, 33, 33, 16), 1)] if form == "bias" else []
    for shape, own in SHAPES + grouped:
        q, k, v = drawn(shape, dtype)
        eq, ek, _ = drawn((own, *shape[1:]), dtype)
        tensors = [q, k, v, eq, ek]
        got = sextant.attention(
            q, k, v, ["causal", f"seqpe(form={form})"], {"seqpe.eq": eq, "seqpe.ek": ek},
            target=target, enable_gqa=shape[1] != shape[2],
        )  # fmt: skip
        exact = [t.detach().double().requires_grad_() for t in tensors]
        want = seqpe_model.seqpe(*exact, form)
        torch.testing.assert_close(got.double(), want, **TOLERANCE[dtype])
        weight = torch.randn(got.shape, dtype=dtype)
        ours = torch.autograd.grad(got, tensors, weight)
        theirs = torch.autograd.grad(want, exact, weight.double())
        for mine, other in zip(ours, theirs):
            torch.testing.assert_close(mine.double(), other, **TOLERANCE[dtype])


@pytest.mark.parametrize("form", ["mul", "sum"])
def test_maps_of_grouped_keys_are_refused(form):
    shape = (1, 4, 2, 9, 9, 8)
    eq, ek, _ = drawn(shape, torch.float32)
    given = {"seqpe.eq": eq, "seqpe.ek": ek}
    message = r"seqpe.mlir:\d+:\d+: a row map of keys .*grouped queries.*heads of query and key"
    with pytest.raises(sextant.RuntimeError, match=message):
        sextant.attention(
            *drawn(shape, torch.float32), ["causal", f"seqpe(form={form})"], given, enable_gqa=True
        )


# The reference itself ------------------------------------------------------------------


def test_digits():
    text, image = Encoder(digits=5), Encoder(digits=2, axes=2, base=7)
    at = torch.tensor([[0], [42], [19999], [99999]])
    assert seqpe_model.tokens(text, at).tolist() == [
        [0, 0, 0, 0, 0], [0, 0, 0, 4, 2], [1, 9, 9, 9, 9], [9, 9, 9, 9, 9]
    ]  # fmt: skip
    assert seqpe_model.tokens(image, torch.tensor([[13, 8]])).tolist() == [[1, 6, 1, 1]]
    for bad in (-1, 49):
        with pytest.raises(ValueError):
            seqpe_model.tokens(image, torch.tensor([[0, bad]]))


@pytest.mark.parametrize("settings", [Encoder(), Encoder(digits=2, axes=2, blocks=3), Encoder(digits=6, base=3)])
def test_the_tree_of_prefixes_is_the_encoder(settings):
    """Values and gradients; 512 consecutive positions have 512 + 52 + 6 + 1 + 1 prefixes."""
    params = seqpe_model.parameters(settings, deviation=0.3)
    at = torch.randint(0, settings.base**settings.digits, (40, settings.axes))
    results = []
    for evaluate in (seqpe_model.encode, seqpe_model.encode_tree):
        leaves = {n: p.clone().requires_grad_() for n, p in params.items()}
        found = evaluate(settings, leaves, at)
        e = found if isinstance(found, torch.Tensor) else found[0]
        results.append([e, *torch.autograd.grad(e.sin().sum(), leaves.values())])
    for direct, shared in zip(*results):
        torch.testing.assert_close(shared, direct, atol=1e-10, rtol=1e-10)
    if settings == Encoder():
        _, count = seqpe_model.encode_tree(settings, params, torch.arange(512)[:, None])
        assert count == 572


def test_only_a_causal_encoder_shares_prefixes():
    settings = Encoder(causal=False)
    params = seqpe_model.parameters(settings, deviation=0.3)
    at = torch.tensor([[12], [13]])
    both = [seqpe_model.encode(s, params, at) for s in (settings, Encoder())]
    assert (both[0] - both[1]).abs().max() > 1e-3
    assert (both[0][0] - both[0][1]).abs().max() > 1e-3


@pytest.mark.parametrize("heads", [1, 4])
def test_losses(heads):
    """Against sums of single terms; ties go to the first candidate, and a per-row mean is
    m times that of all elements."""
    e, others = torch.randn(3, 8, dtype=torch.float64), torch.randn(3, 5, 8, dtype=torch.float64)
    at = torch.tensor([[4], [0], [9]])
    near = torch.tensor([[5, 3, 7, 1, 2], [9, 8, 7, 6, 5], [10, 11, 8, 12, 0]])[..., None]
    want = 0.0
    for row, label in enumerate([0, 4, 0]):
        want -= (others[row] @ e[row]).log_softmax(0)[label] / 3
    torch.testing.assert_close(seqpe_model.contrastive(e, others, at, near), want)

    teacher, student = others.clone().requires_grad_(), torch.randn_like(others).requires_grad_()
    divergence = torch.nn.functional.kl_div
    total = {1: 0.0, 2: 0.0}
    for s in range(3):
        for h in torch.arange(8).chunk(heads):
            t, u = ((x[s][:, h] @ x[s][:, h].T).log_softmax(-1) for x in (teacher.detach(), student))
            forward = divergence(u, t, log_target=True, reduction="sum")
            total[1] += forward
            total[2] += forward + divergence(t, u, log_target=True, reduction="sum")
    for sided, sum_of_all in total.items():
        rows = seqpe_model.distillation(teacher, student, heads, sided, "rows")
        released = seqpe_model.distillation(teacher, student, heads, sided, "released")
        torch.testing.assert_close(rows, sum_of_all / (3 * heads * 5))
        torch.testing.assert_close(released, rows / 5)
    gradients = torch.autograd.grad(rows, [teacher, student], allow_unused=True)
    assert gradients[0] is None and gradients[1].abs().max() > 0


def test_the_weighted_losses():
    """One encoder call for all sets; without trained windows the first loss alone."""
    settings = Encoder(digits=3)
    params = {n: p.requires_grad_() for n, p in seqpe_model.parameters(settings, deviation=0.3).items()}
    at = torch.randint(0, 1000, (4, 6, 1))
    sets = {"pivots": at[:, 0], "candidates": at[:, 1:]}
    shifted = seqpe_model.auxiliary_loss(settings, params, sets, 0.1, 0.3)
    e = seqpe_model.encode(settings, params, at.flatten(0, 1)).reshape(4, 6, -1)
    first = seqpe_model.contrastive(e[:, 0], e[:, 1:], at[:, 0], at[:, 1:])
    torch.testing.assert_close(shifted, 0.1 * first)
    sets |= {"trained": at[:2], "beyond": at[2:]}
    both = seqpe_model.auxiliary_loss(settings, params, sets, 0.1, 0.3, sided=2, reduction="released")
    second = seqpe_model.distillation(e[:2], e[2:], settings.heads, 2, "released")
    torch.testing.assert_close(both, 0.1 * first + 0.3 * second)
    wanted = torch.autograd.grad(0.1 * first + 0.3 * second, params.values())
    for ours, theirs in zip(torch.autograd.grad(both, params.values()), wanted):
        torch.testing.assert_close(ours, theirs)
