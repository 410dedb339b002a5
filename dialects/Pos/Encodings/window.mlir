// Sliding window by index: a query sees the last `size` keys, itself included.
// FlashAttention's left window of w counts one key more (size = w + 1).
pos.encoding @window attributes {
  formula = "key j is visible to query i if 0 <= i - j < size; two_sided: if |i - j| < size",
  paper = "Beltagy et al. 2020, Longformer, section 3.1"
} {
  %size = pos.option "size" : i32 = 256 : i32 at_least 1
  %two_sided = pos.option "two_sided" : i1 = false
  pos.mask {
    %i = pos.index query
    %j = pos.index key
    %d = arith.subi %i, %j : i32
    %zero = arith.constant 0 : i32
    %least = arith.subi %zero, %size : i32
    %near = arith.cmpi slt, %d, %size : i32
    %past = arith.cmpi sge, %d, %zero : i32
    %late = arith.cmpi sgt, %d, %least : i32
    %begun = arith.select %two_sided, %late, %past : i1
    %visible = arith.andi %near, %begun : i1
    pos.yield %visible : i1
  }
}
