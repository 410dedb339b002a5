// A forget gate per key and head, before its sigmoid: keys that lie behind small
// gates count less. With F the running sum of the logarithms of the gates, the
// term is F_i - F_j: a value of the query and one of the key, each made once per
// call in one pass over the keys (indices, not coordinates), as is the gradient.
//
// Gates are those of the keys of a call, [batch, heads, keys]: in a model one
// linear layer of the block's input per head makes them, as in the paper; where
// attention stands alone its caller gives them. Without a mask such as causal a
// later key counts more, by the inverse of the gates.
pos.encoding @forgetting attributes {
  formula = "s + sum over keys t = j + 1 .. i of log sigmoid(gate[b, h, t])",
  paper = "Lin et al. 2025, Forgetting Transformer, section 3"
} {
  %batch = pos.extent batch
  %heads = pos.extent heads
  %keys = pos.extent key
  %gate = pos.param "gate" : tensor<?x?x?xf32> dims(%batch, %heads, %keys)

  // The gates' linear layer. It starts as PyTorch's does: uniform in
  // +-1 / sqrt(width), the bias too.
  %width = pos.extent model
  %size = arith.sitofp %width : i32 to f32
  %one = arith.constant 1.0 : f32
  %root = math.sqrt %size : f32
  %high = arith.divf %one, %root : f32
  %low = arith.negf %high : f32
  %weight = pos.param "weight" : tensor<?x?xf32> dims(%heads, %width) init uniform(%low, %high)
  %bias = pos.param "bias" : tensor<?xf32> dims(%heads) init uniform(%low, %high)
  func.func @produce(%x: tensor<?x?x?xf32> {pos.role = "input"},
                     %w: tensor<?x?xf32> {pos.role = "weight"},
                     %b: tensor<?xf32> {pos.role = "bias"})
      -> (tensor<?x?x?xf32> {pos.role = "gate"}) {
    %rows = nn.linear %x, %w bias %b
      : (tensor<?x?x?xf32>, tensor<?x?xf32>, tensor<?xf32>) -> tensor<?x?x?xf32>
    %gates = nn.transpose %rows 1, 2 : (tensor<?x?x?xf32>) -> tensor<?x?x?xf32>
    return %gates : tensor<?x?x?xf32>
  }

  pos.score {
  ^bb0(%s: f32):
    %b = pos.batch
    %h = pos.head
    %to_query = pos.running_sum to query {
    ^bb0(%t: i32):
      // Smooth at 0, and exact where the exponential of -gate overflows.
      %none = arith.constant 0.0 : f32
      %g = pos.read %gate[%b, %h, %t] : tensor<?x?x?xf32>
      %open = arith.cmpf oge, %g, %none : f32
      %minus = arith.negf %g : f32
      %down = arith.select %open, %minus, %g : f32
      %e = math.exp %down : f32
      %l = math.log1p %e : f32
      %least = arith.select %open, %none, %g : f32
      %y = arith.subf %least, %l : f32
      pos.yield %y : f32
    } : f32
    %to_key = pos.running_sum to key {
    ^bb0(%t: i32):
      %none = arith.constant 0.0 : f32
      %g = pos.read %gate[%b, %h, %t] : tensor<?x?x?xf32>
      %open = arith.cmpf oge, %g, %none : f32
      %minus = arith.negf %g : f32
      %down = arith.select %open, %minus, %g : f32
      %e = math.exp %down : f32
      %l = math.log1p %e : f32
      %least = arith.select %open, %none, %g : f32
      %y = arith.subf %least, %l : f32
      pos.yield %y : f32
    } : f32
    %from_start = arith.addf %s, %to_query : f32
    %u = arith.subf %from_start, %to_key : f32
    pos.yield %u : f32
  }
}
