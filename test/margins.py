"""How near tests come to their tolerances: `pytest -p margins FILES`.

A test on random inputs that uses nine tenths of its tolerance today fails some day on a
seed that nobody chose. This plugin measures every `torch.testing.assert_close`: the
largest difference over what is allowed there, 1 where a test would fail. Of comparisons
by C7 (numeric_contract.py) it measures how many of the draws of other inputs they took.
The summary lists the tests above `--margin` (a half), the nearest first.
"""

import collections
import math

import numeric_contract
import pytest
import torch


def share(actual, expected, rtol=None, atol=None):
    """The largest difference over what is allowed; 0 for what is no tensor of floats."""
    if not all(isinstance(t, torch.Tensor) for t in (actual, expected)):
        pairs = zip(actual, expected) if isinstance(expected, (list, tuple)) else ()
        return max((share(a, b, rtol, atol) for a, b in pairs), default=0.0)
    if not expected.dtype.is_floating_point or not expected.numel():
        return 0.0
    if rtol is None:
        rtol, atol = torch.testing._comparison.default_tolerances(actual, expected)
    actual, expected = actual.detach().double(), expected.detach().double()
    if actual.shape != expected.shape or not (allowed := atol + rtol * expected.abs()).any():
        return 0.0
    same = (actual == expected) | (actual.isnan() & expected.isnan())
    used = torch.where(same, 0.0, (actual - expected).abs() / allowed)
    return float(used.nan_to_num(math.inf).max())


_found: dict[str, float] = {}


class Margins:
    def __init__(self):
        self.worst = collections.defaultdict(float)
        self.test = None
        self.assert_close = torch.testing.assert_close
        torch.testing.assert_close = self.measure
        self.check = numeric_contract.Comparison.check
        numeric_contract.Comparison.check = lambda *args: self.count(*args)

    def measure(self, actual, expected, *, rtol=None, atol=None, **rest):
        if self.test:
            used = share(actual, expected, rtol, atol)
            self.worst[self.test] = max(self.worst[self.test], used)
        self.assert_close(actual, expected, rtol=rtol, atol=atol, **rest)

    def count(self, comparison, what):
        if self.test and comparison.draws > 1:
            used = comparison.draws / numeric_contract.DRAWS
            self.worst[self.test] = max(self.worst[self.test], used)
        self.check(comparison, what)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item):
        self.test = item.nodeid
        yield
        item.user_properties.append(("margin", self.worst.get(item.nodeid, 0.0)))
        self.test = None


def pytest_addoption(parser):
    parser.addoption(
        "--margin", type=float, default=0.5, help="list tests that use more of their tolerance"
    )


def pytest_configure(config):
    config.pluginmanager.register(Margins())


def pytest_runtest_logreport(report):
    for name, value in report.user_properties if report.when == "call" else ():
        if name == "margin":
            _found[report.nodeid] = value


def pytest_terminal_summary(terminalreporter, config):
    least = config.getoption("--margin")
    near = sorted(((v, n) for n, v in _found.items() if v > least), reverse=True)
    terminalreporter.section(f"{len(near)} tests use more than {least:g} of a tolerance")
    for value, name in near:
        terminalreporter.write_line(f"{value:6.2f}  {name}")
