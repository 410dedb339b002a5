// Exact positions: where queries and keys are projected, the first lanes of the
// input become numbers that grow with the position. They are overwritten in the
// input of the projections itself, behind the block's norm; the input of values
// and the residual stream stay as they are. (The paper says "before each
// transformer block" and "the input of the query and key matrix".)
//
// Lane t of position n holds p_(n + t), with p_n = start + step n; start and step
// are the paper's S and theta. `channels` is the number of lanes; -1, the default,
// is an eighth of the width, as in the paper's large models (the small one has 24
// of 384). `step` is the 1/2048 of its experiments; its text also names 1/(2 m)
// for a training length m. Lanes end with p_(n + l - 1), as in equation 3; the
// caption of table 7 has one more. `scaled` multiplies all values, as the paper
// does beyond the training length: `sextant eval RUN --set expe.scaled=0.5`.
//
// The ablations of table 7: with `values = equal` all lanes hold p_n; with
// `values = learned` start and step are the starting points of two parameters, s
// and theta, one pair for the model. With `layers = first` only the first layer of
// a model has the encoding.
pos.encoding @expe attributes {
  formula = "lane t < channels of the input of q and k at position n becomes scaled (start + step (n + t))",
  paper = "Datseris et al. 2025, ExPE, equation 3; scaled: section 4.3; values, layers: table 7"
} {
  %channels = pos.option "channels" : i32 = -1 : i32 at_least -1
  %start = pos.option "start" : f32 = 0.0 : f32
  %step = pos.option "step" : f32 = 4.8828125e-4 : f32
  %scaled = pos.option "scaled" : f32 = 1.0 : f32
  %values = pos.option "values" : i32 = "exact" of ["exact", "equal", "learned"]
  %layers = pos.option "layers" : i32 = "all" of ["all", "first"]

  %width = pos.extent model
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %eight = arith.constant 8 : i32
  %is_share = arith.cmpi slt, %channels, %zero : i32
  %eighth = arith.divsi %width, %eight : i32
  %count = arith.select %is_share, %eighth, %channels : i32
  pos.require %count at_least %one, "no lane holds the position: neither channels nor an eighth of the width may be 0"
  pos.require %count at_most %width, "channels are more than the width"
  // Builders of models read it; there is no layer in a row map.
  pos.require %layers at_most %one, "layers is all or first"

  %is_equal = arith.cmpi eq, %values, %one : i32
  %is_learned = arith.cmpi eq, %values, %two : i32
  %s = pos.param "s" : tensor<f32> dims() init constant(%start) scope model
  %theta = pos.param "theta" : tensor<f32> dims() init constant(%step) scope model

  pos.rows of [query_input, key_input] single lanes(%zero, %count) {
  ^bb0(%x: f32):
    %n = pos.coord self
    %t = pos.lane
    %along = arith.select %is_equal, %zero, %t : i32
    %place = arith.addi %n, %along : i32
    %placef = arith.sitofp %place : i32 to f32
    %s_learned = pos.read %s[] : tensor<f32>
    %theta_learned = pos.read %theta[] : tensor<f32>
    %s_used = arith.select %is_learned, %s_learned, %start : f32
    %theta_used = arith.select %is_learned, %theta_learned, %step : f32
    %far = arith.mulf %theta_used, %placef : f32
    %p = arith.addf %s_used, %far : f32
    %y = arith.mulf %scaled, %p : f32
    pos.yield %y : f32
  }
}
