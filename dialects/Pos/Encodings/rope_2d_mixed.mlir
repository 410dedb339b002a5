// Rotary embedding of a grid with learned frequencies: each pair of each head
// turns by a mix of the column and the row. Positions are (row, column), two
// axes; freqs[0] belongs to the column, freqs[1] to the row. A token at (0, 0) is
// not rotated, and with `outside` no token with a negative coordinate is. The head
// dim is a multiple of 4.
//
// Initially each pair turns along one direction with the axial magnitude, the
// second half of the pairs at right angles to the first. The released code draws
// one direction per head; a formula cannot draw, so here head h starts at angle
// 2.4 h (the golden angle), which spreads any number of heads evenly.
pos.encoding @rope_2d_mixed attributes {
  formula = "pair t of q and k of head h turns by x freqs[0, h, t] + y freqs[1, h, t]",
  paper = "Heo et al. 2024, Rotary Position Embedding for Vision Transformer, section 3.2, mixed learnable frequency"
} {
  %theta = pos.option "theta" : f32 = 10.0 : f32 above 0
  %outside = pos.option "outside" : i1 = false
  %heads = pos.extent heads
  %dim = pos.extent head_dim
  %two = arith.constant 2 : i32
  %four = arith.constant 4 : i32
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %pairs = arith.divsi %dim, %two : i32
  %quarter = arith.divsi %dim, %four : i32

  %freqs = pos.param "freqs" : tensor<?x?x?xf32> dims(%two, %heads, %pairs) by {
  ^bb0(%axis: i32, %h: i32, %t: i32):
    %first = arith.cmpi slt, %t, %quarter : i32
    %rest = arith.subi %t, %quarter : i32
    %u = arith.select %first, %t, %rest : i32
    %uf = arith.sitofp %u : i32 to f32
    %df = arith.sitofp %dim : i32 to f32
    %minus4 = arith.constant -4.0 : f32
    %numerator = arith.mulf %minus4, %uf : f32
    %exponent = arith.divf %numerator, %df : f32
    %magnitude = math.powf %theta, %exponent : f32
    %golden = arith.constant 2.399963229728653 : f32
    %quarter_turn = arith.constant 1.5707963267948966 : f32
    %none = arith.constant 0.0 : f32
    %hf = arith.sitofp %h : i32 to f32
    %direction = arith.mulf %hf, %golden : f32
    %turn = arith.select %first, %none, %quarter_turn : f32
    %angle = arith.addf %direction, %turn : f32
    %cosine = math.cos %angle : f32
    %sine = math.sin %angle : f32
    %is_column = arith.cmpi eq, %axis, %zero : i32
    %part = arith.select %is_column, %cosine, %sine : f32
    %value = arith.mulf %magnitude, %part : f32
    pos.yield %value : f32
  }

  pos.rows of [query, key] interleaved {
  ^bb0(%x: f32, %y: f32):
    %row = pos.coord self
    %column = pos.coord self axis 1
    %h = pos.head
    %t = pos.lane
    %fx = pos.read %freqs[%zero, %h, %t] : tensor<?x?x?xf32>
    %fy = pos.read %freqs[%one, %h, %t] : tensor<?x?x?xf32>
    %least = arith.minsi %row, %column : i32
    %negative = arith.cmpi slt, %least, %zero : i32
    %alone = arith.andi %outside, %negative : i1
    %row_or_0 = arith.select %alone, %zero, %row : i32
    %column_or_0 = arith.select %alone, %zero, %column : i32
    %rowf = arith.sitofp %row_or_0 : i32 to f32
    %columnf = arith.sitofp %column_or_0 : i32 to f32
    %across = arith.mulf %columnf, %fx : f32
    %down = arith.mulf %rowf, %fy : f32
    %angle = arith.addf %across, %down : f32
    %c = math.cos %angle : f32
    %n = math.sin %angle : f32
    %xc = arith.mulf %x, %c : f32
    %yn = arith.mulf %y, %n : f32
    %u = arith.subf %xc, %yn : f32
    %xn = arith.mulf %x, %n : f32
    %yc = arith.mulf %y, %c : f32
    %v = arith.addf %xn, %yc : f32
    pos.yield %u, %v : f32, f32
  }
}
