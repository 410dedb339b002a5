// Soft capping of the scaled score, before masks.
pos.encoding @softcap attributes {
  formula = "cap tanh(s / cap)",
  paper = "Gemma Team 2024, Gemma 2, section 2"
} {
  %cap = pos.option "cap" : f32 = 50.0 : f32 above 0
  pos.score {
  ^bb0(%s: f32):
    %x = arith.divf %s, %cap : f32
    %y = math.tanh %x : f32
    %t = arith.mulf %cap, %y : f32
    pos.yield %t : f32
  }
}
