// T5's relative attention bias. Half of the buckets hold one distance each, the
// other half grows logarithmically up to max_distance: bucket exact + k starts
// at the least integer distance n with (n / exact)^spread >=
// (max_distance / exact)^k. These thresholds are integers, made once in f64; no
// logarithm of a distance is taken, where rounding would move the exact powers.
pos.encoding @t5_bias attributes {
  formula = "s + table[bucket(i - j), h]; times_sqrt_dim: the bias times sqrt(d)",
  paper = "Raffel et al. 2020, T5, section 2.1"
} {
  %buckets = pos.option "buckets" : i32 = 32 : i32 at_least 2 at_most 65536
  %max_distance = pos.option "max_distance" : i32 = 128 : i32 at_least 2 at_most 16777216
  %bidirectional = pos.option "bidirectional" : i1 = false
  %times_sqrt_dim = pos.option "times_sqrt_dim" : i1 = false
  %heads = pos.extent heads
  %model = pos.extent model
  %two = arith.constant 2 : i32
  %one = arith.constant 1 : i32
  %zero = arith.constant 0 : i32
  %zerof = arith.constant 0.0 : f32
  %onef = arith.constant 1.0 : f32

  // Buckets of one direction, those of a single distance, and the others.
  %half = arith.divsi %buckets, %two : i32
  %side = arith.select %bidirectional, %half, %buckets : i32
  %exact = arith.divsi %side, %two : i32
  %spread = arith.subi %side, %exact : i32
  %beyond = arith.addi %exact, %one : i32
  pos.require %side at_least %two, "a direction needs two buckets, half of them for one distance each"
  pos.require %max_distance at_least %beyond, "max_distance is not beyond the buckets of one distance each"

  %modelf = arith.sitofp %model : i32 to f32
  %root = math.sqrt %modelf : f32
  %deviation = arith.divf %onef, %root : f32
  %table = pos.param "table" : tensor<?x?xf32> dims(%buckets, %heads)
    init normal(%zerof, %deviation) scope model

  %thresholds = pos.param "thresholds" : tensor<?xf32> dims(%spread) frozen by {
  ^bb0(%k: i32):
    %kf = arith.sitofp %k : i32 to f32
    %exactf = arith.sitofp %exact : i32 to f32
    %spreadf = arith.sitofp %spread : i32 to f32
    %farf = arith.sitofp %max_distance : i32 to f32
    %ratio = arith.divf %farf, %exactf : f32
    %exponent = arith.divf %kf, %spreadf : f32
    %power = math.powf %ratio, %exponent : f32
    %start = arith.mulf %exactf, %power : f32
    // An exact integer must not be rounded up by the last bit of the power.
    %tolerance = arith.constant 1.0e-6 : f32
    %below = arith.subf %start, %tolerance : f32
    %threshold = math.ceil %below : f32
    pos.yield %threshold : f32
  } scope model

  pos.score {
  ^bb0(%s: f32):
    %h = pos.head
    %o = pos.offset
    %n = math.absi %o : i32
    %back = arith.subi %zero, %o : i32
    %past = arith.maxsi %back, %zero : i32
    %d = arith.select %bidirectional, %n, %past : i32
    %df = arith.sitofp %d : i32 to f32
    %reached = pos.sum to %spread {
    ^bb0(%k: i32):
      %threshold = pos.read %thresholds[%k] : tensor<?xf32>
      %is = arith.cmpf oge, %df, %threshold : f32
      %count = arith.select %is, %onef, %zerof : f32
      pos.yield %count : f32
    } : f32
    %reachedi = arith.fptosi %reached : f32 to i32
    %last = arith.subi %exact, %one : i32
    %logarithmic = arith.addi %last, %reachedi : i32
    %near = arith.cmpi slt, %d, %exact : i32
    %bucket = arith.select %near, %d, %logarithmic : i32
    %later = arith.cmpi sgt, %o, %zero : i32
    %other = arith.andi %later, %bidirectional : i1
    %start = arith.select %other, %side, %zero : i32
    %b = arith.addi %bucket, %start : i32
    %bias = pos.read %table[%b, %h] : tensor<?x?xf32>
    %dim = pos.extent head_dim
    %dimf = arith.sitofp %dim : i32 to f32
    %sqrt = math.sqrt %dimf : f32
    %factor = arith.select %times_sqrt_dim, %sqrt, %onef : f32
    %y = arith.mulf %bias, %factor : f32
    %t = arith.addf %s, %y : f32
    pos.yield %t : f32
  }
}
