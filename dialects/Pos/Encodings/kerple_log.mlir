// Kernelized relative bias, logarithmic form; both parameters learned per head.
pos.encoding @kerple_log attributes {
  formula = "s - r1_h log(1 + r2_h |i - j|)",
  paper = "Chi et al. 2022, KERPLE, section 4, logarithmic variant"
} {
  %heads = pos.extent heads
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %two = arith.constant 2.0 : f32
  %r1 = pos.param "r1" : tensor<?xf32> dims(%heads) init uniform(%zero, %two) floor 0.01
  %r2 = pos.param "r2" : tensor<?xf32> dims(%heads) init uniform(%zero, %one) floor 0.01

  pos.score {
  ^bb0(%s: f32):
    %h = pos.head
    %o = pos.offset
    %n = math.absi %o : i32
    %d = arith.sitofp %n : i32 to f32
    %a = pos.read %r1[%h] : tensor<?xf32>
    %b = pos.read %r2[%h] : tensor<?xf32>
    %x = arith.mulf %b, %d : f32
    %l = math.log1p %x : f32
    %y = arith.mulf %a, %l : f32
    %t = arith.subf %s, %y : f32
    pos.yield %t : f32
  }
}
