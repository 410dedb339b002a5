// A user's own encoding.
pos.encoding @tilt {
  %slope = pos.option "slope" : f32 = 0.5 : f32
  pos.score {
  ^bb0(%s: f32):
    %o = pos.offset
    %d = arith.sitofp %o : i32 to f32
    %b = arith.mulf %slope, %d : f32
    %t = arith.addf %s, %b : f32
    pos.yield %t : f32
  }
}
