"""The papers that can be reproduced, a module each."""

from . import dape, expe, seqpe, seqpe_images, tape

# In the order of their publication; SeqPE has two parts, texts and images.
PAPERS = {
    paper.name: paper
    for paper in (dape.PAPER, seqpe.PAPER, seqpe_images.PAPER, tape.PAPER, expe.PAPER)
}
