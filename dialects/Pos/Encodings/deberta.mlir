// Disentangled attention: beside content to content, the query's content meets
// the key's relative position, and the key's content the query's. Distances are
// clipped at the reach k to 2 k rows; delta(i, j) = clip(i - j + k, 0, 2 k - 1).
// Three terms are summed, so the scale is 1 / sqrt(3 d).
//
// In the paper both tables are made of one table P of 2 k embeddings that all
// layers share, by projections of the layer: kr = P W_k and qr = P W_q, transposed
// here, [heads * head_dim, 2 k]. Give such products to share P, or train the
// tables themselves.
pos.encoding @deberta attributes {
  formula = "(s + scale (q_i kr_c + k_j qr_p)) / sqrt(3), c = clip(i - j + reach, 0, 2 reach - 1), p = clip(j - i + reach, 0, 2 reach - 1)",
  paper = "He et al. 2021, DeBERTa, section 3.1, equation 4"
} {
  %reach = pos.option "reach" : i32 = 512 : i32 at_least 1 at_most 536870911
  %heads = pos.extent heads
  %kv_heads = pos.extent kv_heads
  %head_dim = pos.extent head_dim
  %two = arith.constant 2 : i32
  %zero = arith.constant 0.0 : f32
  %deviation = arith.constant 0.02 : f32
  %rows = arith.muli %reach, %two : i32
  %query_lanes = arith.muli %heads, %head_dim : i32
  %key_lanes = arith.muli %kv_heads, %head_dim : i32

  %kr = pos.param "kr" : tensor<?x?xf32> dims(%query_lanes, %rows)
    init normal(%zero, %deviation)
  %qr = pos.param "qr" : tensor<?x?xf32> dims(%key_lanes, %rows)
    init normal(%zero, %deviation)

  pos.score {
  ^bb0(%s: f32):
    %first = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %three = arith.constant 3.0 : f32
    %last = arith.subi %rows, %one : i32
    %o = pos.offset
    %back = arith.subi %reach, %o : i32
    %back_low = arith.maxsi %back, %first : i32
    %c = arith.minsi %back_low, %last : i32
    %ahead = arith.addi %reach, %o : i32
    %ahead_low = arith.maxsi %ahead, %first : i32
    %p = arith.minsi %ahead_low, %last : i32
    %to_position = pos.query_dot %kr columns[%c] : tensor<?x?xf32>
    %to_content = pos.key_dot %qr columns[%p] : tensor<?x?xf32>
    %sum = arith.addf %to_position, %to_content : f32
    %scale = pos.scale
    %y = arith.mulf %sum, %scale : f32
    %all = arith.addf %s, %y : f32
    %root = math.rsqrt %three : f32
    %t = arith.mulf %all, %root : f32
    pos.yield %t : f32
  }
}
