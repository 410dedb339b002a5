// Keys that are padding are hidden from every query.
pos.encoding @padding attributes {
  formula = "key j is visible if visible[j] is not 0",
  paper = "Vaswani et al. 2017, Attention Is All You Need (batches of unequal length)"
} {
  %batch = pos.extent batch
  %keys = pos.extent key
  %given = pos.param "visible" : tensor<?x?xi32> dims(%batch, %keys)
  pos.mask {
    %zero = arith.constant 0 : i32
    %j = pos.index key
    %b = pos.batch
    %v = pos.read %given[%b, %j] : tensor<?x?xi32>
    %visible = arith.cmpi ne, %v, %zero : i32
    pos.yield %visible : i1
  }
}
