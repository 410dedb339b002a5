// Axial rotary embedding of a grid. Positions are (row, column), two axes; the
// first half of the pairs turns by the column, the second by the row, both with
// the same frequencies. A token at (0, 0), a class token say, is not rotated, and
// with `outside` no token with a negative coordinate is. Coordinates are integers: a
// larger grid continues them. The head dim is a multiple of 4.
pos.encoding @rope_2d attributes {
  formula = "pair t of q and k turns by x theta^(-4 t / d), pair t + d/4 by y theta^(-4 t / d), t < d/4",
  paper = "Heo et al. 2024, Rotary Position Embedding for Vision Transformer, section 3.2, axial frequency"
} {
  %theta = pos.option "theta" : f32 = 100.0 : f32 above 0
  %pairing = pos.option "pairing" : i32 = "interleaved" of ["half", "interleaved"]
  %outside = pos.option "outside" : i1 = false
  %zero = arith.constant 0 : i32

  pos.rows of [query, key] grouping(%pairing) lanes(%zero, %zero) {
  ^bb0(%x: f32, %y: f32):
    %row = pos.coord self
    %column = pos.coord self axis 1
    %t = pos.lane
    %dim = pos.extent head_dim
    %four = arith.constant 4 : i32
    %quarter = arith.divsi %dim, %four : i32
    %first = arith.cmpi slt, %t, %quarter : i32
    %rest = arith.subi %t, %quarter : i32
    %u = arith.select %first, %t, %rest : i32
    %coordinate = arith.select %first, %column, %row : i32
    %least = arith.minsi %row, %column : i32
    %negative = arith.cmpi slt, %least, %zero : i32
    %alone = arith.andi %outside, %negative : i1
    %p = arith.select %alone, %zero, %coordinate : i32
    %uf = arith.sitofp %u : i32 to f32
    %df = arith.sitofp %dim : i32 to f32
    %minus4 = arith.constant -4.0 : f32
    %numerator = arith.mulf %minus4, %uf : f32
    %exponent = arith.divf %numerator, %df : f32
    %frequency = math.powf %theta, %exponent : f32
    %pf = arith.sitofp %p : i32 to f32
    %angle = arith.mulf %pf, %frequency : f32
    %c = math.cos %angle : f32
    %n = math.sin %angle : f32
    %xc = arith.mulf %x, %c : f32
    %yn = arith.mulf %y, %n : f32
    %a = arith.subf %xc, %yn : f32
    %xn = arith.mulf %x, %n : f32
    %yc = arith.mulf %y, %c : f32
    %b = arith.addf %xn, %yc : f32
    pos.yield %a, %b : f32, f32
  }
}
