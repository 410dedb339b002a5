"""Every section of the benchmark: the table that the project promises."""

from calls import calls
from decode import decode
from gathers import gathers
from given import given
from inside import against_torch, inside
from kernels import attention, dense_bias, encodings, share
from memory import memory
from models import digits, steps
from projections import projections
from rewrites import rewrites
from shares import shares
from vit import images
from waits import waiting
from whole import compiling, training

SECTIONS = {
    "attention": attention,
    "decode": decode,
    "calls": calls,
    "share": share,
    "encodings": encodings,
    "inside": inside,
    "given": given,
    "torch": against_torch,
    "rewrites": rewrites,
    "gathers": gathers,
    "projections": projections,
    "bias": dense_bias,
    "memory": memory,
    "training": training,
    "models": steps,
    "digits": digits,
    "shares": shares,
    "vit": images,
    "waits": waiting,
    "compile": compiling,
}
