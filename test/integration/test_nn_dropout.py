"""Dropout is a pure function of seed, step, place and the element's number."""

import pytest
import torch

import sextant

TEXT = """
nn.parameter "a" : tensor<37x11xf32> init constant [0.0]

func.func @loss(%w: tensor<37x11xf32> {exec.name = "w"}, %seed: tensor<i64> {exec.name = "seed"},
                %step: tensor<i64> {exec.name = "step"},
                %a: tensor<37x11xf32> {nn.parameter = "a"})
    -> (tensor<f32>, tensor<37x11xf32> {exec.name = "y"}, tensor<37x11xf32> {exec.name = "z"})
    attributes {nn.gradients = @gradients} {
  %y = nn.dropout %a probability 0.3 seed(%seed) step(%step) place 4 : tensor<37x11xf32>
  %z = nn.dropout %a probability 0.3 seed(%seed) step(%step) place 5 : tensor<37x11xf32>
  %u = nn.mul %y, %w : (tensor<37x11xf32>, tensor<37x11xf32>) -> tensor<37x11xf32>
  %loss = nn.sum %u over [0, 1] : (tensor<37x11xf32>) -> tensor<f32>
  return %loss, %y, %z : tensor<f32>, tensor<37x11xf32>, tensor<37x11xf32>
}

func.func @large(%x: tensor<?xf64> {exec.name = "x"}, %h: tensor<?xbf16> {exec.name = "h"},
                 %seed: tensor<i64> {exec.name = "seed"}, %step: tensor<i64> {exec.name = "step"})
    -> (tensor<?xf64>, tensor<?xbf16>) {
  %y = nn.dropout %x probability 0.3 seed(%seed) step(%step) place 4 : tensor<?xf64>
  %z = nn.dropout %h probability 0.3 seed(%seed) step(%step) place 4 : tensor<?xbf16>
  return %y, %z : tensor<?xf64>, tensor<?xbf16>
}
"""
MASK32 = 2**32 - 1


@pytest.fixture(scope="module", params=["reference", "cuda-emulated:sm_80"])
def program(request):
    """On a GPU a kernel draws what the runtime draws on the host."""
    return sextant.compile(TEXT, target=request.param)


def philox(counter, key):
    """A block of Philox4x32-10 (Salmon et al. 2011)."""
    c, k = list(counter), list(key)
    for _ in range(10):
        first, second = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(second >> 32) ^ c[1] ^ k[0], second & MASK32,
             (first >> 32) ^ c[3] ^ k[1], first & MASK32]
        k = [(k[0] + 0x9E3779B9) & MASK32, (k[1] + 0xBB67AE85) & MASK32]
    return c


def kept(shape, seed, step, place, probability):
    """The elements that a dropout keeps."""
    count = torch.Size(shape).numel()
    key = (seed & MASK32, seed >> 32 & MASK32)
    words = [w for b in range((count + 3) // 4) for w in philox((b, 0, step, place), key)][:count]
    return torch.tensor([w < (1 - probability) * 2**32 for w in words]).reshape(shape)


def numbers(seed, step):
    return {"seed": torch.tensor(seed), "step": torch.tensor(step)}


def test_mask_and_its_gradient(program, seed):
    """The derivative uses the mask of the same place, whose words are Philox's."""
    generator = torch.Generator().manual_seed(seed)
    a, w = (torch.randn(37, 11, generator=generator) for _ in range(2))
    big = -(2**62) + seed
    _, y, z, gradient = program.run("gradients", {"a": a, "w": w, **numbers(big, 7)})
    scale = torch.tensor(1 / 0.7)
    for value, base, place in ((y, a, 4), (z, a, 5), (gradient, w, 4)):
        mask = kept((37, 11), big, 7, place, 0.3)
        assert torch.equal(value, base * mask * scale)


def test_every_number_counts(program):
    a = torch.ones(37, 11)

    def run(seed, step):
        _, y, z = program.run("loss", {"a": a, "w": a, **numbers(seed, step)})
        return y, z

    y, z = run(3, 5)
    assert torch.equal(run(3, 5)[0], y) and not torch.equal(y, z)
    others = [run(*each)[0] for each in ((4, 5), (3, 6), (3 + 2**32, 5), (5, 3))]
    for i, other in enumerate([y, *others]):
        assert not any(torch.equal(other, o) for o in others[i:])


def test_rate_threads_and_element_types(program, seed):
    """The share of zeros is the probability within 5 standard deviations; threads
    and the type of the elements change nothing."""
    n = 10**5 + 3
    inputs = {"x": torch.ones(n, dtype=torch.float64), "h": torch.ones(n, dtype=torch.bfloat16),
              **numbers(seed, 0)}
    y, z = program.run("large", inputs)
    share = (y == 0).double().mean().item()
    assert abs(share - 0.3) < 5 * (0.3 * 0.7 / n) ** 0.5
    assert torch.equal(y[y != 0], torch.full_like(y[y != 0], 1 / 0.7))
    assert torch.equal(y == 0, z == 0)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        assert torch.equal(program.run("large", inputs)[0], y)
    finally:
        torch.set_num_threads(threads)


def test_numbers_that_do_not_fit(program):
    inputs = {"a": torch.ones(37, 11), "w": torch.ones(37, 11)}
    for step in (-1, 2**32):
        with pytest.raises(sextant.RuntimeError, match=f"must be in 0 .. 2.32 - 1.*{step}"):
            program.run("loss", {**inputs, **numbers(0, step)})
