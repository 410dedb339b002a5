// Stands before Sextant's own encoding of this name on a search path.
pos.encoding @causal {
  pos.mask {
    %visible = arith.constant true
    pos.yield %visible : i1
  }
}
