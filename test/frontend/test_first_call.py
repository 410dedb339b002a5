"""What the first call of a process brings in."""

import os
import subprocess
import sys

PROGRAM = """
import sys
import sextant, torch
flags = sys.getdlopenflags()
x = torch.randn(1, 2, 4, 16, requires_grad=True)
sextant.attention(x, x, x, ["causal", "rope"]).sum().backward()
assert x.grad.isfinite().all()
assert "torch._dynamo" not in sys.modules
assert sys.getdlopenflags() == flags  # of the modules that are loaded after the compiler
with torch.no_grad():
    call = lambda y: sextant.attention(y, y, y, ["causal", "rope"]) + 1
    want = call(x)
    again = torch.compile(call, backend="eager")(x)
assert "torch._dynamo" in sys.modules
torch.testing.assert_close(again, want)
print("done")
"""


def test_calls_do_not_import_the_compiler_of_torch():
    """It takes seconds; where a program uses it, calls still work inside."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "TORCHDYNAMO_DISABLE": "0"},
        capture_output=True,
        text=True,
    )
    assert done.stdout == "done\n", done.stderr
