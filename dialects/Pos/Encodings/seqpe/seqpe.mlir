// Embeddings of positions in attention: what a sequential encoder makes of the
// digits of a position, projected to a row per head for queries, eq, and one for
// keys, ek. Both are as wide as a head and come from the graph. One row stands for
// one token of the call; they may be shared by the batch, [1, heads, length, head
// dim].
//
// `form` says how they act: `bias` adds their product before the scale (the
// paper's equation 14, called AttnScalar in its text and code), `mul` and `sum`
// multiply and add the rows themselves, so that keys of several query heads, whose
// map would be that of a head, are refused there.
pos.encoding @seqpe attributes {
  formula = "bias: scale (q_i k_j + eq_i ek_j); mul: scale (q_i eq_i) (k_j ek_j); sum: scale (q_i + eq_i) (k_j + ek_j); by head, products of rows by lane",
  paper = "Li et al. 2025, SeqPE, section 3"
} {
  %form = pos.option "form" : i32 = "bias" of ["bias", "mul", "sum"]
  %batch = pos.extent batch
  %heads = pos.extent heads
  %kv_heads = pos.extent kv_heads
  %queries = pos.extent query
  %keys = pos.extent key
  %dim = pos.extent head_dim
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %eq = pos.param "eq" : tensor<?x?x?x?xf32> dims(%batch, %heads, %queries, %dim)
  %ek = pos.param "ek" : tensor<?x?x?x?xf32> dims(%batch, %kv_heads, %keys, %dim)

  // Columns for `bias`, and maps of no lane; else none, and maps of all lanes. What
  // does not act reads nothing.
  %none = arith.constant 0.0 : f32
  %is_bias = arith.cmpi eq, %form, %zero : i32
  %multiplies = arith.cmpi eq, %form, %one : i32
  %columns = arith.select %is_bias, %dim, %zero : i32

  pos.columns %columns {
    %b = pos.batch
    %h = pos.head
    %t = pos.lane
    %i = pos.tensor_row query
    %j = pos.tensor_row key
    %a = pos.read %eq[%b, %h, %i, %t] : tensor<?x?x?x?xf32>
    %e = pos.read %ek[%b, %h, %j, %t] : tensor<?x?x?x?xf32>
    %x = arith.select %is_bias, %a, %none : f32
    %y = arith.select %is_bias, %e, %none : f32
    pos.yield %x, %y : f32, f32
  }

  pos.rows of [query] single lanes(%columns, %columns) {
  ^bb0(%x: f32):
    %b = pos.batch
    %h = pos.head
    %t = pos.lane
    %i = pos.tensor_row self
    %e = pos.read %eq[%b, %h, %i, %t] : tensor<?x?x?x?xf32>
    %product = arith.mulf %x, %e : f32
    %sum = arith.addf %x, %e : f32
    %mapped = arith.select %multiplies, %product, %sum : f32
    %y = arith.select %is_bias, %x, %mapped : f32
    pos.yield %y : f32
  }
  pos.rows of [key] single lanes(%columns, %columns) {
  ^bb0(%x: f32):
    %b = pos.batch
    %h = pos.head
    %t = pos.lane
    %j = pos.tensor_row self
    %e = pos.read %ek[%b, %h, %j, %t] : tensor<?x?x?x?xf32>
    %product = arith.mulf %x, %e : f32
    %sum = arith.addf %x, %e : f32
    %mapped = arith.select %multiplies, %product, %sum : f32
    %y = arith.select %is_bias, %x, %mapped : f32
    pos.yield %y : f32
  }
}
