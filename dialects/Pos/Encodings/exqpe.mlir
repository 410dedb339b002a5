// Exact positions for coarse numbers: as in `expe` the first lanes of the input of
// queries' and keys' projections hold the position, but a step of the position
// changes one lane by much, not all by little.
//
// Lanes start as start + step t (the paper's S + theta1 t), and position i adds
// `increment` (theta2) to lane i mod l, from position 0 on, which adds it to lane
// 0. So lane t of position n has floor((n - t) / l) + 1 increments. `channels`,
// `scaled` and `layers` are as in `expe`; `scaled` multiplies the sum, so start,
// step and increment. With `values = learned` these three are the starting points
// of parameters, s, theta1 and theta2, one of each for the model.
pos.encoding @exqpe attributes {
  formula = "lane t < l = channels of the input of q and k at position n becomes scaled (start + step t + increment (floor((n - t) / l) + 1))",
  paper = "Datseris et al. 2025, ExPE, the variant ExQPE; scaled: section 4.3; values, layers: table 7"
} {
  %channels = pos.option "channels" : i32 = -1 : i32 at_least -1
  %start = pos.option "start" : f32 = 0.0 : f32
  %step = pos.option "step" : f32 = 4.8828125e-4 : f32
  %increment = pos.option "increment" : f32 = 0.0625 : f32
  %scaled = pos.option "scaled" : f32 = 1.0 : f32
  %values = pos.option "values" : i32 = "exact" of ["exact", "learned"]
  %layers = pos.option "layers" : i32 = "all" of ["all", "first"]

  %width = pos.extent model
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %eight = arith.constant 8 : i32
  %is_share = arith.cmpi slt, %channels, %zero : i32
  %eighth = arith.divsi %width, %eight : i32
  %count = arith.select %is_share, %eighth, %channels : i32
  pos.require %count at_least %one, "no lane holds the position: neither channels nor an eighth of the width may be 0"
  pos.require %count at_most %width, "channels are more than the width"
  // Builders of models read it; there is no layer in a row map.
  pos.require %layers at_most %one, "layers is all or first"

  %is_learned = arith.cmpi eq, %values, %one : i32
  %s = pos.param "s" : tensor<f32> dims() init constant(%start) scope model
  %theta1 = pos.param "theta1" : tensor<f32> dims() init constant(%step) scope model
  %theta2 = pos.param "theta2" : tensor<f32> dims() init constant(%increment) scope model

  pos.rows of [query_input, key_input] single lanes(%zero, %count) {
  ^bb0(%x: f32):
    %n = pos.coord self
    %t = pos.lane
    %behind = arith.subi %n, %t : i32
    %whole = arith.floordivsi %behind, %count : i32
    %times = arith.addi %whole, %one : i32
    %s_learned = pos.read %s[] : tensor<f32>
    %theta1_learned = pos.read %theta1[] : tensor<f32>
    %theta2_learned = pos.read %theta2[] : tensor<f32>
    %s_used = arith.select %is_learned, %s_learned, %start : f32
    %theta1_used = arith.select %is_learned, %theta1_learned, %step : f32
    %theta2_used = arith.select %is_learned, %theta2_learned, %increment : f32
    %tf = arith.sitofp %t : i32 to f32
    %timesf = arith.sitofp %times : i32 to f32
    %along = arith.mulf %theta1_used, %tf : f32
    %grown = arith.mulf %theta2_used, %timesf : f32
    %origin = arith.addf %s_used, %along : f32
    %p = arith.addf %origin, %grown : f32
    %y = arith.mulf %scaled, %p : f32
    pos.yield %y : f32
  }
}
