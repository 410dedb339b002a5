// Kerple's power form with a kernel that also multiplies the score, so it is not
// additive in the score: nothing that needs an additive host may take it. Powers
// are taken of at least 1 and replaced by 0 at distance 0, so that no gradient
// meets the logarithm of 0. As published, r1 and r3 are the outer factors, r2
// and r4 the exponents.
pos.encoding @kerple_multiplicative attributes {
  formula = "s exp(-r3_h |i - j|^(r4_h)) - r1_h |i - j|^(r2_h)",
  paper = "Chi et al. 2022, KERPLE, released code, bias and weight kernels of the power form"
} {
  %heads = pos.extent heads
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %two = arith.constant 2.0 : f32
  %r1 = pos.param "r1" : tensor<?xf32> dims(%heads) init uniform(%zero, %one) floor 0.01
  %r2 = pos.param "r2" : tensor<?xf32> dims(%heads) init uniform(%zero, %two) floor 0.01 ceiling 2.0
  %r3 = pos.param "r3" : tensor<?xf32> dims(%heads) init uniform(%zero, %one) floor 0.01
  %r4 = pos.param "r4" : tensor<?xf32> dims(%heads) init uniform(%zero, %two) floor 0.01 ceiling 2.0

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
    %bias = arith.mulf %a, %p : f32
    %e = pos.read %r3[%h] : tensor<?xf32>
    %f = pos.read %r4[%h] : tensor<?xf32>
    %decay_power = math.powf %d, %f : f32
    %g = arith.select %here, %zero, %decay_power : f32
    %scaled = arith.mulf %e, %g : f32
    %exponent = arith.negf %scaled : f32
    %weight = math.exp %exponent : f32
    %product = arith.mulf %s, %weight : f32
    %t = arith.subf %product, %bias : f32
    pos.yield %t : f32
  }
}
