pos.encoding @broken {
  pos.score {
  ^bb0(%s: f32):
    %t = arith.addf %s, %missing : f32
    pos.yield %t : f32
  }
}
