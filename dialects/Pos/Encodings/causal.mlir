// A query sees the keys up to its own index (indices, not coordinates).
pos.encoding @causal attributes {
  formula = "key j is visible to query i if j <= i",
  paper = "Vaswani et al. 2017, Attention Is All You Need, section 3.2.3"
} {
  pos.mask {
    %i = pos.index query
    %j = pos.index key
    %visible = arith.cmpi sle, %j, %i : i32
    pos.yield %visible : i1
  }
}
