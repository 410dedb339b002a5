"""Training and evaluation of compiled models on byte text."""
