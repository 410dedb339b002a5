#!/usr/bin/env python3
"""Times LLVM and NVIDIA's assembler over one attention on tensor cores, cold.

    tools/bench/ptxas_times.py [--target cuda:sm_80] [--rounds 5]

Prints, for attentions in bf16 (d = 64) in both directions, the seconds of the processor
that a compilation without a cache says it spent on all kernels (remarks of categories
`llvm`, with what lowers to it, and `ptxas`): the median of the rounds and their spread. Last, what
a user waits for sextant-compile, by the clock: kernels are then assembled side by side. The goal is
1.5 s.
"""

import argparse
import re
import statistics
import time

from sass import attention, attention_backward, run

# Of LLVM all kernels are told in one line, and each one again.
TIMES = re.compile(r"Category:(llvm(?! \| Function)|ptxas) \| (.*)")
MILLISECONDS = re.compile(r"(\w*Milliseconds)=([\d.e+-]+)")
PER_HEAD, TABLE = "tensor<?xf32>", "tensor<?x?xf32>"
# Uses and the types of what they take.
ATTENTIONS: dict[str, tuple[list[str], list[str]]] = {
    "plain": ([], []),
    "causal, alibi": (["causal", "alibi"], [PER_HEAD]),
    "causal, t5_bias": (["causal", "t5_bias"], [TABLE, PER_HEAD]),
}


def model_of(uses: list[str], params: list[str]) -> str:
    """A module of both directions."""
    dims = (64, 64)
    backward = attention_backward(uses, params, dims).replace("@f(", "@g(")
    return attention(uses, params, dims) + backward


def options_of(target: str) -> tuple[str, ...]:
    return f"--target={target}", "--no-cache", "--o=/dev/null"


def wait_for(model: str, target: str) -> float:
    """The seconds of a command, by the clock."""
    began = time.perf_counter()
    run("sextant-compile", "-", *options_of(target), text=model)
    return time.perf_counter() - began


def seconds_of(model: str, target: str) -> dict[str, float]:
    """What a compilation spent, by category."""
    said = run("sextant-compile", "-", *options_of(target), "--remarks", text=model).stderr
    spent = {"llvm": 0.0, "ptxas": 0.0}
    for category, metrics in TIMES.findall(said):
        spent[category] += sum(float(number) for _, number in MILLISECONDS.findall(metrics))
    return {category: milliseconds / 1000 for category, milliseconds in spent.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--target", default="cuda:sm_80")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    print("| attention | LLVM + ptxas, s | spread | of it ptxas | the command, by the clock |")
    print("|---|---|---|---|---|")
    for name, (uses, params) in ATTENTIONS.items():
        model = model_of(uses, params)
        rounds = [seconds_of(model, arguments.target) for _ in range(arguments.rounds)]
        waits = [wait_for(model, arguments.target) for _ in range(arguments.rounds)]
        totals = [sum(spent.values()) for spent in rounds]
        ptxas = statistics.median(spent["ptxas"] for spent in rounds)
        print(
            f"| {name} | {statistics.median(totals):.2f} | {min(totals):.2f} - {max(totals):.2f} "
            f"| {ptxas:.2f} | {statistics.median(waits):.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
