// Data-adaptive positional encoding: a small network, the same at every (query,
// key), sees the scores S and the terms B that the hosts add to them, of all
// heads at once. Hosts are named in the use: dape(kerple_log). Without one B is 0;
// the form on S alone, with a residual, is then variant = add_residual.
//
//   concat_residual  S + B + f([S; B])
//   concat           S + f([S; B])
//   add_residual     S + B + f(S + B)
//   bias_residual    S + B + f(B), which adapts to no data
//
// f is Linear, LeakyReLU, Linear with both biases. S is the scaled score. The
// paper's text has concat (its equation) and reports all three; the released
// code's configurations run concat_residual, which is the default here. The
// paper speaks of 32 hidden units and recommends as many as heads; 32 is what the
// code uses for language models, 64 for its algorithmic tasks. Initial values are
// those of the code: PyTorch's Linear, uniform up to 1 / sqrt(inputs), for weights
// and biases, not the scheme of the rest of its model. f sees the scores of hidden
// keys too (the mask acts after it), which no result depends on.
pos.encoding @dape attributes {
  formula = "S + B + f([S; B]), f = Linear, LeakyReLU, Linear over the heads",
  paper = "Zheng et al. 2024, DAPE: Data-Adaptive Positional Encoding, section 3"
} {
  %variant = pos.option "variant" : i32 = "concat_residual" of ["concat_residual", "concat", "add_residual", "bias_residual"]
  %hidden = pos.option "hidden" : i32 = 32 : i32 at_least 1 at_most 65536
  %slope = pos.option "slope" : f32 = 0.01 : f32
  %heads = pos.extent heads
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %three = arith.constant 3 : i32
  %onef = arith.constant 1.0 : f32
  %zerof = arith.constant 0.0 : f32
  %is_concat = arith.cmpi eq, %variant, %one : i32
  %is_add = arith.cmpi eq, %variant, %two : i32
  %is_bias = arith.cmpi eq, %variant, %three : i32

  // Inputs of the network: [S; B], S + B or B. Columns of B in the first matrix.
  %twice = arith.muli %heads, %two : i32
  %is_one = arith.ori %is_add, %is_bias : i1
  %inputs = arith.select %is_one, %heads, %twice : i32
  %second = arith.select %is_one, %zero, %heads : i32

  %inputsf = arith.sitofp %inputs : i32 to f32
  %hiddenf = arith.sitofp %hidden : i32 to f32
  %root1 = math.sqrt %inputsf : f32
  %root2 = math.sqrt %hiddenf : f32
  %high1 = arith.divf %onef, %root1 : f32
  %high2 = arith.divf %onef, %root2 : f32
  %low1 = arith.negf %high1 : f32
  %low2 = arith.negf %high2 : f32
  %w1 = pos.param "w1" : tensor<?x?xf32> dims(%hidden, %inputs) init uniform(%low1, %high1)
  %b1 = pos.param "b1" : tensor<?xf32> dims(%hidden) init uniform(%low1, %high1)
  %w2 = pos.param "w2" : tensor<?x?xf32> dims(%heads, %hidden) init uniform(%low2, %high2)
  %b2 = pos.param "b2" : tensor<?xf32> dims(%heads) init uniform(%low2, %high2)

  %size = arith.index_cast %hidden : i32 to index
  pos.score {
  ^bb0(%s: tensor<?xf32>):
    %b = pos.host : tensor<?xf32>
    %sum = arith.addf %s, %b : tensor<?xf32>
    %x = arith.select %is_add, %sum, %s : tensor<?xf32>
    %seen = pos.contract %w1, %x columns from %zero
      : tensor<?x?xf32>, tensor<?xf32> -> tensor<?xf32>
    // What does not need the scores: a table over offsets for most hosts.
    %beside = pos.contract %w1, %b columns from %second
      : tensor<?x?xf32>, tensor<?xf32> -> tensor<?xf32>
    %shifted = arith.addf %beside, %b1 : tensor<?xf32>
    %static = arith.select %is_add, %b1, %shifted : tensor<?xf32>
    %both = arith.addf %seen, %static : tensor<?xf32>
    %pre = arith.select %is_bias, %static, %both : tensor<?xf32>
    %zeros = tensor.splat %zerof[%size] : tensor<?xf32>
    %slopes = tensor.splat %slope[%size] : tensor<?xf32>
    %positive = arith.cmpf ogt, %pre, %zeros : tensor<?xf32>
    %scaled = arith.mulf %pre, %slopes : tensor<?xf32>
    %units = arith.select %positive, %pre, %scaled : tensor<?xi1>, tensor<?xf32>
    %out = pos.contract %w2, %units : tensor<?x?xf32>, tensor<?xf32> -> tensor<?xf32>
    %f = arith.addf %out, %b2 : tensor<?xf32>
    %kept = arith.select %is_concat, %s, %sum : tensor<?xf32>
    %t = arith.addf %kept, %f : tensor<?xf32>
    pos.yield %t : tensor<?xf32>
  }
}
