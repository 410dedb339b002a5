// Relative position by content: a sinusoid of the distance is projected to one
// row per head, with which the query row is multiplied beside the key. u and v
// stand for the query in the terms that do not depend on it: u is added to the
// query that meets keys, v to the one that meets distances, which row maps
// leave as it was. Both terms are scaled. Distances may be negative.
//
// The paper shares u and v among layers; here they are of the layer, as in later
// code. width is that of the sinusoid, 0 for heads * head_dim.
pos.encoding @transformer_xl attributes {
  formula = "scale ((q_i + u) k_j + (q_i + v) (wr r_(i - j))), r_t = (sin(t w_m), cos(t w_m)), w_m = 10000^(-2 m / width)",
  paper = "Dai et al. 2019, Transformer-XL, section 3.3"
} {
  %width = pos.option "width" : i32 = 0 : i32 at_least 0 at_most 65536 multiple_of 2
  %heads = pos.extent heads
  %head_dim = pos.extent head_dim
  %zero = arith.constant 0 : i32
  %two = arith.constant 2 : i32
  %model = arith.muli %heads, %head_dim : i32
  %all = arith.cmpi eq, %width, %zero : i32
  %lanes = arith.select %all, %model, %width : i32
  %half = arith.divsi %lanes, %two : i32

  %zerof = arith.constant 0.0 : f32
  %onef = arith.constant 1.0 : f32
  %deviation = arith.constant 0.02 : f32
  %lanesf = arith.sitofp %lanes : i32 to f32
  %root = math.sqrt %lanesf : f32
  %bound = arith.divf %onef, %root : f32
  %least = arith.negf %bound : f32

  %u = pos.param "u" : tensor<?x?xf32> dims(%heads, %head_dim) init normal(%zerof, %deviation)
  %v = pos.param "v" : tensor<?x?xf32> dims(%heads, %head_dim) init normal(%zerof, %deviation)
  %wr = pos.param "wr" : tensor<?x?xf32> dims(%model, %lanes) init uniform(%least, %bound)

  pos.rows of [query] single {
  ^bb0(%x: f32):
    %h = pos.head
    %t = pos.lane
    %a = pos.read %u[%h, %t] : tensor<?x?xf32>
    %y = arith.addf %x, %a : f32
    pos.yield %y : f32
  }

  pos.score {
  ^bb0(%s: f32):
    %o = pos.offset
    %of = arith.sitofp %o : i32 to f32
    %distance = arith.negf %of : f32
    %sum = pos.sum to %lanes {
    ^bb0(%c: i32):
      %z = pos.query_dot %wr columns[%c] plus %v : tensor<?x?xf32>, tensor<?x?xf32>
      %is_sine = arith.cmpi slt, %c, %half : i32
      %behind = arith.subi %c, %half : i32
      %m = arith.select %is_sine, %c, %behind : i32
      %mf = arith.sitofp %m : i32 to f32
      %base = arith.constant 10000.0 : f32
      %minus2 = arith.constant -2.0 : f32
      %numerator = arith.mulf %minus2, %mf : f32
      %exponent = arith.divf %numerator, %lanesf : f32
      %frequency = math.powf %base, %exponent : f32
      %angle = arith.mulf %distance, %frequency : f32
      %sine = math.sin %angle : f32
      %cosine = math.cos %angle : f32
      %r = arith.select %is_sine, %sine, %cosine : f32
      %y = arith.mulf %z, %r : f32
      pos.yield %y : f32
    } : f32
    %scale = pos.scale
    %b = arith.mulf %sum, %scale : f32
    %t = arith.addf %s, %b : f32
    pos.yield %t : f32
  }
}
