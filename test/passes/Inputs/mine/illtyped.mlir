pos.encoding @illtyped {
  pos.score {
  ^bb0(%s: f32):
    %c = arith.constant 1 : i32
    pos.yield %c : i32
  }
}
