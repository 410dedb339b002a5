// Talking heads, in the form that one pass over the keys can compute: the scores
// of all heads are mixed before the softmax. The paper mixes the probabilities
// after the softmax as well; that needs every score of a row first, and is no
// part of this definition. pre is [heads out, heads in]; it starts as the
// identity, which is ordinary attention (the paper leaves the start open).
pos.encoding @talking_heads attributes {
  formula = "s'_h = sum_g pre[h, g] s_g",
  paper = "Shazeer et al. 2020, Talking-Heads Attention, section 4 (before the softmax)"
} {
  %heads = pos.extent heads
  %pre = pos.param "pre" : tensor<?x?xf32> dims(%heads, %heads) by {
  ^bb0(%out: i32, %in: i32):
    %same = arith.cmpi eq, %out, %in : i32
    %one = arith.constant 1.0 : f32
    %zero = arith.constant 0.0 : f32
    %value = arith.select %same, %one, %zero : f32
    pos.yield %value : f32
  }
  pos.score {
  ^bb0(%s: tensor<?xf32>):
    %t = pos.contract %pre, %s : tensor<?x?xf32>, tensor<?xf32> -> tensor<?xf32>
    pos.yield %t : tensor<?xf32>
  }
}
