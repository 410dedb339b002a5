"""Integers have a value everywhere (text of `pos.encoding`): quotients by 0, the least
integer by -1, shifts by any distance, numbers out of range. The same on every target, at
compile time and in initial values; Python's operators on traced values agree where Python
has a value."""

import math

import pytest
import targets
import torch

import sextant

LEAST = -(2**31)
NUMBERS = [LEAST, LEAST + 1, -7, -1, 0, 1, 2, 7, 31, 32, 33, 2**31 - 1]


def wrap(value):
    return (value + 2**31) % 2**32 - 2**31


def quotient(a, b):
    return 0 if b == 0 else wrap(a // b)


def remainder(a, b):
    return wrap(a - quotient(a, b) * b) if b else a


def left(a, n):
    return wrap(a << n) if 0 <= n < 32 else 0


def right(a, n):
    return a >> n if 0 <= n < 32 else -1 if a < 0 else 0


FUNCTIONS = [
    (lambda a, b: a // b, quotient),
    (lambda a, b: a % b, remainder),
    (lambda a, b: a << b, left),
    (lambda a, b: a >> b, right),
]


@sextant.encoding
def computed(
    score,
    at,
    a: sextant.Param("key", integer=True),
    b: sextant.Param("key", integer=True),
    *,
    which=0,
):
    """The result as two numbers that f32 holds: its low half and its high half."""
    results = [f(a[at.key], b[at.key]) for f, _ in FUNCTIONS]
    value = results[0]
    for number, other in enumerate(results[1:], 1):
        value = sextant.where(which % 4 == number, other, value)
    half = sextant.where(which < 4, value & 65535, value >> 16)
    return sextant.to_float(half) + score * 0.0


@pytest.mark.parametrize("target", ["reference", *targets.DTYPES])
def test_every_target_agrees(target):
    """All pairs of sharp numbers, as given at the call: one key per pair, one query per
    key that sees it alone, so that its log-sum-exp is the score."""
    if not targets.available(target):
        pytest.skip(f"this machine has no {target}")
    pairs = [(a, b) for a in NUMBERS for b in NUMBERS]
    a, b = (torch.tensor(t, dtype=torch.int32) for t in zip(*pairs))
    count = len(pairs)
    dtype = targets.DTYPES.get(target, torch.float32)
    q = torch.zeros(1, 1, count, 16, dtype=dtype)
    for which in range(8):
        uses = [computed(which=which) if which else computed, "window(size=1)", "causal"]
        params = {"computed.a": a, "computed.b": b}
        _, lse = sextant.attention(q, q, q, uses, params, target=target, return_lse=True)
        exact = torch.tensor([FUNCTIONS[which % 4][1](*pair) for pair in pairs])
        want = exact & 65535 if which < 4 else exact >> 16
        # Halves are whole numbers below 2^16: exact but for the logarithm of 1.
        assert torch.equal(lse.flatten().round().long(), want), which


# The low half of the quotient at head 0, the high half at head 1.
DIVIDED = """
pos.encoding @divided {
  %keys = pos.extent key
  %a = pos.param "a" : tensor<?xi32> dims(%keys)
  %b = pos.param "b" : tensor<?xi32> dims(%keys)
  pos.score {
  ^bb0(%s: f32):
    %j = pos.index key
    %x = pos.read %a[%j] : tensor<?xi32>
    %y = pos.read %b[%j] : tensor<?xi32>
    %q = arith.DIVISION %x, %y : i32
    %bits = arith.constant 65535 : i32
    %half = arith.constant 16 : i32
    %low = arith.andi %q, %bits : i32
    %high = arith.shrsi %q, %half : i32
    %h = pos.head
    %one = arith.constant 1 : i32
    %isHigh = arith.cmpi eq, %h, %one : i32
    %chosen = arith.select %isHigh, %high, %low : i32
    %t = arith.sitofp %chosen : i32 to f32
    pos.yield %t : f32
  }
}
"""


def unsigned(number):
    return number % 2**32


DIVISIONS = {
    "divsi": lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
    "ceildivsi": lambda a, b: -(-a // b),
    "divui": lambda a, b: unsigned(a) // unsigned(b),
    "ceildivui": lambda a, b: -(-unsigned(a) // unsigned(b)),
}


@pytest.mark.parametrize("target", ["reference", "cpu"])
@pytest.mark.parametrize("division", DIVISIONS)
def test_divisions_that_python_has_not(division, target, tmp_path, monkeypatch):
    """Of values that the call gives, so that no op is sure not to divide by 0."""
    (tmp_path / "divided.mlir").write_text(DIVIDED.replace("DIVISION", division))
    monkeypatch.setenv("SEXTANT_PATH", str(tmp_path))
    pairs = [(a, b) for a in NUMBERS for b in NUMBERS]
    a, b = (torch.tensor(t, dtype=torch.int32) for t in zip(*pairs))
    q = torch.zeros(1, 2, len(pairs), 16)
    uses, params = ["divided", "window(size=1)", "causal"], {"divided.a": a, "divided.b": b}
    _, lse = sextant.attention(q, q, q, uses, params, target=target, return_lse=True)
    want = [wrap(DIVISIONS[division](*pair)) if pair[1] else 0 for pair in pairs]
    halves = torch.tensor([[w & 65535 for w in want], [w >> 16 for w in want]])
    assert torch.equal(lse[0].round().long(), halves)


@pytest.mark.parametrize("divisor", [0, -1, 1, 33, LEAST])
def test_initial_values_agree(divisor):
    """Regions of initial values, evaluated in the compiler, with an option as divisor."""
    rows = torch.arange(-3, 4)

    def start(f):
        return lambda i: sextant.to_float(f(i - 3, sextant.to_int(i * 0) + divisor))

    for f, python in FUNCTIONS:

        @sextant.encoding
        def begun(score, at, start: sextant.Param(7, init=start(f))):
            return score + start[at.head]

        got = sextant.init_params([begun], heads=1, head_dim=16)["begun.start"]
        want = torch.tensor([float(python(int(i), divisor)) for i in rows])
        torch.testing.assert_close(got, want.to(got.dtype))


@pytest.mark.parametrize("target", ["reference", "cpu"])
def test_an_option_may_be_zero(target):
    """Divisors that linking knows: guarded by a condition, or not."""

    @sextant.encoding
    def stepped(score, at, *, step=4):
        guarded = sextant.where(step > 0, at.key // step, at.key)
        return score + (at.key // step + guarded % step) * 1.0

    q = torch.zeros(1, 1, 9, 16)
    for step in (4, 0, -1):
        _, lse = sextant.attention(
            q, q, q, [stepped(step=step), "window(size=1)", "causal"], target=target, return_lse=True
        )
        want = []
        for key in range(9):
            guarded = quotient(key, step) if step > 0 else key
            want.append(quotient(key, step) + remainder(guarded, step))
        torch.testing.assert_close(lse.flatten(), torch.tensor(want, dtype=torch.float32))


# The greatest and least numbers of f32 on either side of the range of integers.
CONVERTED = {
    0.99: 0,
    -0.99: 0,
    -7.5: -7,
    2.0**31 - 128: 2**31 - 128,
    2.0**31: 2**31 - 1,
    3e38: 2**31 - 1,
    math.inf: 2**31 - 1,
    -(2.0**31): LEAST,
    -(2.0**31) - 256: LEAST,
    -math.inf: LEAST,
    math.nan: 0,
}


@sextant.encoding
def converted(score, at, numbers: sextant.Param("key", given=True), *, high=False):
    """The integer as two numbers that f32 holds."""
    whole = sextant.to_int(numbers[at.key])
    return sextant.to_float(sextant.where(high, whole >> 16, whole & 65535)) + score * 0.0


@pytest.mark.parametrize("target", ["reference", *targets.DTYPES])
def test_numbers_out_of_range(target):
    if not targets.available(target):
        pytest.skip(f"this machine has no {target}")
    numbers = torch.tensor(list(CONVERTED))
    dtype = targets.DTYPES.get(target, torch.float64)
    q = torch.zeros(1, 1, len(numbers), 16, dtype=dtype)
    numbers = numbers.to(torch.float64 if dtype == torch.float64 else torch.float32)
    for high in (False, True):
        uses = [converted(high=True) if high else converted, "window(size=1)", "causal"]
        params = {"converted.numbers": numbers}
        _, lse = sextant.attention(q, q, q, uses, params, target=target, return_lse=True)
        want = torch.tensor([w >> 16 if high else w & 65535 for w in CONVERTED.values()])
        assert torch.equal(lse.flatten().round().long(), want), high


def test_numbers_out_of_range_at_compile_time():
    """In initial values, whose arithmetic is float64, and for a literal."""

    @sextant.encoding
    def begun(
        score,
        at,
        start: sextant.Param(
            3, init=lambda i: sextant.to_float(sextant.to_int((i - 1.0) * 1e20) // 65536)
        ),
    ):
        return score + start[at.head] + sextant.to_float(sextant.to_int(score * 0.0 + 1e20) >> 16)

    got = sextant.init_params([begun], heads=1, head_dim=16)["begun.start"]
    assert got.tolist() == [-32768.0, 0.0, 32767.0]
    q = torch.zeros(1, 1, 1, 16)
    for target in ("reference", "cpu"):
        params = {"begun.start": torch.zeros(3)}
        _, lse = sextant.attention(q, q, q, [begun], params, target=target, return_lse=True)
        assert lse.item() == 32767.0
