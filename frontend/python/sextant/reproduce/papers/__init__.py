"""The papers that can be reproduced, a module each."""

from . import dape, expe, seqpe, tape

# In the order of their publication.
PAPERS = {paper.name: paper for paper in (dape.PAPER, seqpe.PAPER, tape.PAPER, expe.PAPER)}
