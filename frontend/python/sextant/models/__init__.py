"""Builders of models: Python that prints modules of `nn` and `pos` ops."""

from . import gpt, vit

__all__ = ["gpt", "vit"]
