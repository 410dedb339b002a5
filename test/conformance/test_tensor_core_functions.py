"""Functions of scores on tensor cores, in the emulator: the instructions of a GPU that stand
for them (codegen/CUDA/Sm80/PayloadMath.h), forward and in every gradient. What they take of a
GPU is counted in test/codegen/test_tensor_core_code.py."""

import pytest
import torch
from cases import Case
from tensor_core_cases import ONE, hold

import sextant

pytestmark = pytest.mark.usefixtures("drawn_threads")
DTYPES = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
RATE = sextant.Param("heads", init=sextant.normal(1.0, 0.2))


@sextant.encoding
def gated(score, at, rate: RATE):
    return score * sextant.sigmoid(rate[at.head] * score)


@sextant.encoding
def decayed(score, at, rate: RATE):
    return score + sextant.exp(-rate[at.head] * abs(score - 0.3)) * 2.0


@sextant.encoding
def logarithm(score, at, rate: RATE):
    return 2.0 * sextant.log(rate[at.head] * score * score + 0.01)


@sextant.encoding
def compressed(score, at, rate: RATE):
    """Of numbers from 1e-8 on, by which 1 + x is 1, up to some 4."""
    near = 1e6 * sextant.log1p(1e-6 * abs(score) * rate[at.head])
    return near + 2.0 * sextant.log1p(abs(score))


@sextant.encoding
def waved(score, at, rate: RATE):
    return score + sextant.sin(rate[at.head] * score) - sextant.cos(score * 30.0)


@sextant.encoding
def normalized(score, at, rate: RATE):
    return 3.0 * score / sextant.sqrt(rate[at.head] + score * score)


@sextant.encoding
def powers(score, at, rate: RATE):
    """Of whole exponents of numbers of both signs, and of another."""
    x = rate[at.head] * score
    return 0.1 * x**3.0 - 0.05 * x**4.0 + abs(x) ** 1.5


@sextant.encoding
def open_gate(score, at, rate: RATE):
    return sextant.logsigmoid(score * rate[at.head]) + sextant.softplus(score)


@sextant.encoding
def saturated(
    score,
    at,
    bases: sextant.Param(8, init=sextant.normal(4.0, 0.5)),
    rate: RATE,
):
    """Trained values within a tanh that is almost 1, of what f32 knows and of the score."""
    far = bases[at.key % 8] + 0.5 * sextant.log1p(at.query * 1.0)
    return score * (1 + 0.3 * sextant.tanh(far)) + 2.0 * sextant.tanh(rate[at.head] * score)


@sextant.encoding
def of_what_f32_knows(
    score,
    at,
    bases: sextant.Param(8, init=sextant.normal(0.0, 0.5)),
    rate: RATE,
):
    """Functions that no score reaches, with large factors."""
    far = bases[at.key % 8] + 0.01 * at.query
    bias = sextant.log1p(1e-5 * far * far) * 1e5 + sextant.sin(far * 1e-5) * 1e5
    bias = bias + 2e3 * sextant.tanh(0.02 * far)
    return score * rate[at.head] + bias


@sextant.encoding
def steps(score, at, rate: RATE):
    """A whole number 41 n over 41 is n, but times 1 / 41 it may be less: 0.99999994."""
    return score * rate[at.head] + 0.5 * (sextant.floor((at.query * at.key) / 41.0) % 3.0)


OF_SCORES = [gated, decayed, logarithm, compressed, waved, normalized, powers, open_gate]


@DTYPES
@pytest.mark.parametrize("scale", [0.02, 1.0], ids=["small", "large"])
@pytest.mark.parametrize("use", OF_SCORES, ids=str)
def test_functions_of_scores(use, scale, dtype, seed):
    """Scores of some 0.1 and of some 4: head dims of 16 without 1 / 4."""
    hold(Case(use, **ONE, query=65, key=129, scale=scale), seed, "backward", dtype)


@DTYPES
@pytest.mark.parametrize("use", [saturated, "softcap(cap=1.5)"], ids=["trained", "softcap"])
def test_slopes_of_a_saturated_tanh(use, dtype, seed):
    """1 - t^2 of a t that is off by 2^-11 of itself would be off by more than itself."""
    hold(Case(use, **ONE, query=65, key=129, scale=2.0), seed, "backward", dtype)


@DTYPES
@pytest.mark.parametrize("use", [of_what_f32_knows, steps], ids=str)
def test_functions_that_no_score_reaches(use, dtype, seed):
    """Are as exact as f32: their arguments have no rounding of 16 bits."""
    hold(Case(use, **ONE, query=65, key=129), seed, "backward", dtype)


@sextant.encoding
def cubed(score, at):
    return score - 0.02 * score**3.0


@pytest.mark.parametrize("use", [gated, waved, cubed], ids=str)
def test_few_queries_of_long_texts(use, seed):
    """Keys that are split over blocks."""
    hold(Case(use, **ONE, query=3, key=700), seed)
