"""The documents of a text: each ends with a separator."""

import torch


def given(tokens, options, seed, step, *, separator=r"\n\n"):
    """A token's document is the number of separators that end before it. The default
    separator is an empty line, so that paragraphs are documents; ``\\n`` and ``\\t`` stand
    for the ends of lines, those of Windows too, and for tabs."""
    marks = separator.replace(r"\n", "\n").replace(r"\t", "\t").encode()
    if not marks:
        raise ValueError("the separator is empty")
    # Whether a separator ends with a token.
    ends = torch.zeros_like(tokens, dtype=torch.bool)
    for form in {marks, marks.replace(b"\n", b"\r\n")}:
        if tokens.shape[1] >= len(form):
            found = tokens.unfold(1, len(form), 1) == torch.tensor(list(form))
            ends[:, len(form) - 1 :] |= found.all(-1)
    count = ends.cumsum(1) - ends.long()
    return {"ids": count.to(torch.int32)}
