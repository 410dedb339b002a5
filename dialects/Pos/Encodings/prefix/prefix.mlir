// Causal, but the keys of a prefix are visible to every query.
pos.encoding @prefix attributes {
  formula = "key j is visible to query i if j < length or j <= i",
  paper = "Raffel et al. 2020, T5, section 3.2.1"
} {
  %batch = pos.extent batch
  %length = pos.param "length" : tensor<?xi32> dims(%batch)
  pos.mask {
    %i = pos.index query
    %j = pos.index key
    %b = pos.batch
    %n = pos.read %length[%b] : tensor<?xi32>
    %first = arith.cmpi slt, %j, %n : i32
    %past = arith.cmpi sle, %j, %i : i32
    %visible = arith.ori %first, %past : i1
    pos.yield %visible : i1
  }
}
