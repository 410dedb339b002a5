// Kernelized relative bias, power form; both parameters learned per head. The
// power is taken of at least 1 and replaced by 0 at distance 0, so that no
// gradient meets the logarithm of 0.
pos.encoding @kerple_power attributes {
  formula = "s - r1_h |i - j|^(r2_h)",
  paper = "Chi et al. 2022, KERPLE, section 4, power variant"
} {
  %heads = pos.extent heads
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %two = arith.constant 2.0 : f32
  %r1 = pos.param "r1" : tensor<?xf32> dims(%heads) init uniform(%zero, %one) floor 0.01
  %r2 = pos.param "r2" : tensor<?xf32> dims(%heads) init uniform(%zero, %two) floor 0.01 ceiling 2.0

  pos.score {
  ^bb0(%s: f32):
    %h = pos.head
    %o = pos.offset
    %n = math.absi %o : i32
    %none = arith.constant 0 : i32
    %first = arith.constant 1 : i32
    %here = arith.cmpi eq, %n, %none : i32
    %guarded = arith.maxsi %n, %first : i32
    %d = arith.sitofp %guarded : i32 to f32
    %a = pos.read %r1[%h] : tensor<?xf32>
    %b = pos.read %r2[%h] : tensor<?xf32>
    %power = math.powf %d, %b : f32
    %p = arith.select %here, %zero, %power : f32
    %y = arith.mulf %a, %p : f32
    %t = arith.subf %s, %y : f32
    pos.yield %t : f32
  }
}
