"""Kernels with thousands of branches, as some encodings together have in their backward,
compile in the memory that others take."""

import subprocess
import sys

CODE = """
import resource

resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))

import sextant
from sextant import definitions
from sextant.attention_text import AttentionKey, attention_module
from sextant.plans import param_types


@sextant.encoding
def waves(score, at, p: sextant.Param(17, init=sextant.normal(0.0, 0.5))):
    return score * (1 + 0.3 * sextant.tanh(abs(p[at.key % 17])))


@sextant.encoding
def scaled(score, at):
    return score * (1 + 0.3 * sextant.tanh(at.scale))


signature = definitions.signature(
    ["fire(threshold=384.0, activation=leaky_relu)", "kerple_log", "causal", waves, scaled]
)
types = param_types(signature, [p.name for p in signature.params if p.trained])
key = AttentionKey("bf16", 4, (8,), signature.uses, types, signature.definitions, 1, 1)
text = attention_module(key, forward=False, backward=True)
print(sextant.emit(text, "llvm", target="cuda:sm_80").count("br i1 "))
"""


def test_memory_of_a_compile():
    command = [sys.executable, "-c", CODE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) > 100
