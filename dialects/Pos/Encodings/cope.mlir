// Contextual position encoding: a key's position is the sum of the gates from
// that key to the query, so tokens that matter are counted. Between two whole
// positions the bias is interpolated. Without a causal mask the count starts at
// the last key. The bias is not scaled; the gate sees the score so far. The released
// code interpolates to ceil(p): the same values, but no slope at whole p, which sums of
// f32 do reach. Here the slope at a whole p is that to its right.
pos.encoding @cope attributes {
  formula = "s + interpolation at p_ij of q_i table, p_ij = min(sum of sigmoid(s_it) over j <= t <= i, positions - 1)",
  paper = "Golovneva et al. 2024, Contextual Position Encoding, section 4"
} {
  %positions = pos.option "positions" : i32 = 64 : i32 at_least 1 at_most 16777216
  %head_dim = pos.extent head_dim
  %zero = arith.constant 0.0 : f32

  %table = pos.param "table" : tensor<?x?xf32> dims(%head_dim, %positions)
    init constant(%zero)

  pos.score {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    %first = arith.constant 1 : i32
    %last = arith.subi %positions, %first : i32
    %limit = arith.sitofp %last : i32 to f32
    // The sigmoid, smooth at 0, of exponentials that do not overflow.
    %none = arith.constant 0.0 : f32
    %open = arith.cmpf oge, %s, %none : f32
    %minus = arith.negf %s : f32
    %down = arith.select %open, %minus, %s : f32
    %odds = math.exp %down : f32
    %numerator = arith.select %open, %one, %odds : f32
    %denominator = arith.addf %odds, %one : f32
    %gate = arith.divf %numerator, %denominator : f32
    %p = pos.scan %gate leftward until %limit : f32
    %low = math.floor %p : f32
    %i = arith.fptosi %low : f32 to i32
    %next = arith.addi %i, %first : i32
    %j = arith.minsi %next, %last : i32
    %a = pos.query_dot %table columns[%i] : tensor<?x?xf32>
    %b = pos.query_dot %table columns[%j] : tensor<?x?xf32>
    %w = arith.subf %p, %low : f32
    %slope = arith.subf %b, %a : f32
    %part = arith.mulf %w, %slope : f32
    %bias = arith.addf %a, %part : f32
    %t = arith.addf %s, %bias : f32
    pos.yield %t : f32
  }
}
