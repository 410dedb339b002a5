"""Every section of the benchmark: the table that the project promises."""

from gathers import gathers
from inside import against_torch, inside
from kernels import attention, dense_bias, encodings, share
from memory import memory
from rewrites import rewrites
from waits import waiting
from whole import compiling, training

SECTIONS = {
    "attention": attention,
    "share": share,
    "encodings": encodings,
    "inside": inside,
    "torch": against_torch,
    "rewrites": rewrites,
    "gathers": gathers,
    "bias": dense_bias,
    "memory": memory,
    "training": training,
    "waits": waiting,
    "compile": compiling,
}
