// Packed documents: a query sees the keys of its own document. A query reads
// the id at its index; queries and keys are aligned at the end, so queries
// before the first key belong to its document.
pos.encoding @document attributes {
  formula = "key j is visible to query i if ids[i] = ids[j]",
  paper = "Krell et al. 2021, Efficient Sequence Packing, section 3"
} {
  %batch = pos.extent batch
  %keys = pos.extent key
  %ids = pos.param "ids" : tensor<?x?xi32> dims(%batch, %keys)
  pos.mask {
    %zero = arith.constant 0 : i32
    %i = pos.index query
    %inside = arith.maxsi %i, %zero : i32
    %j = pos.index key
    %b = pos.batch
    %own = pos.read %ids[%b, %inside] : tensor<?x?xi32>
    %other = pos.read %ids[%b, %j] : tensor<?x?xi32>
    %visible = arith.cmpi eq, %own, %other : i32
    pos.yield %visible : i1
  }
}
