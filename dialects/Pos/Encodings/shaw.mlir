// Relative position representations: a learned row per clipped offset is added
// to the key (before the scale) and to the value. Tables are shared by heads.
// Without the value side there is no av.
pos.encoding @shaw attributes {
  formula = "scale q_i (k_j + ak_c), o_i = sum_j P_ij (v_j + av_c), c = clip(j - i, -reach, reach) + reach",
  paper = "Shaw et al. 2018, Self-Attention with Relative Position Representations, section 3.2"
} {
  %reach = pos.option "reach" : i32 = 16 : i32 at_least 0 at_most 1073741823
  %value_side = pos.option "value_side" : i1 = true
  %head_dim = pos.extent head_dim
  %value_dim = pos.extent value_dim
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %zero = arith.constant 0.0 : f32
  %sides = arith.muli %reach, %two : i32
  %rows = arith.addi %sides, %one : i32

  %deviation = arith.constant 0.02 : f32
  %ak = pos.param "ak" : tensor<?x?xf32> dims(%rows, %head_dim)
    init normal(%zero, %deviation)
  %av = pos.param "av" : tensor<?x?xf32> dims(%rows, %value_dim)
    init normal(%zero, %deviation)

  pos.score {
  ^bb0(%s: f32):
    %none = arith.constant 0 : i32
    %back = arith.subi %none, %reach : i32
    %o = pos.offset
    %low = arith.maxsi %o, %back : i32
    %clipped = arith.minsi %low, %reach : i32
    %c = arith.addi %clipped, %reach : i32
    %z = pos.query_dot %ak[%c] : tensor<?x?xf32>
    %scale = pos.scale
    %y = arith.mulf %z, %scale : f32
    %t = arith.addf %s, %y : f32
    pos.yield %t : f32
  }

  pos.weighted_rows %av when %value_side : tensor<?x?xf32> {
    %none = arith.constant 0 : i32
    %back = arith.subi %none, %reach : i32
    %o = pos.offset
    %low = arith.maxsi %o, %back : i32
    %clipped = arith.minsi %low, %reach : i32
    %c = arith.addi %clipped, %reach : i32
    pos.yield %c : i32
  }
}
