// Functional interpolation of relative positions: a small network of one scalar,
// the logarithmic distance relative to that of the row's position (or of a
// learned threshold, where that is larger). Positions are coordinates, those of
// a cache count. The network is one hidden layer.
//
// Two settings are published: threshold 512 with relu (the class's default in
// both released repositories, and TAPE's), and, inside DAPE, leaky_relu with the
// threshold halved and fed the noise length, which its configurations of length
// 512 set to 128: threshold = 64. b2 is the same for all keys of a row, so it
// learns only where a later term of the score is not additive.
pos.encoding @fire attributes {
  formula = "s + (w2 relu(w1 x + b1) + b2)_h, x = psi(|i - j|) / (psi(max(i, |mult threshold|)) + 1e-6), psi(u) = log(1 + |c| u)",
  paper = "Li et al. 2024, Functional Interpolation for Relative Positions, section 3"
} {
  %threshold = pos.option "threshold" : f32 = 512.0 : f32 at_least 0
  %hidden = pos.option "hidden" : i32 = 32 : i32 at_least 1 at_most 65536
  %activation = pos.option "activation" : i32 = "relu" of ["relu", "leaky_relu"]
  %heads = pos.extent heads
  %zero = arith.constant 0 : i32
  %zerof = arith.constant 0.0 : f32
  %onef = arith.constant 1.0 : f32
  %minus1 = arith.constant -1.0 : f32
  %tenth = arith.constant 0.1 : f32
  %leak = arith.constant 0.01 : f32
  %epsilon = arith.constant 1.0e-6 : f32
  %leaks = arith.cmpi ne, %activation, %zero : i32
  %hiddenf = arith.sitofp %hidden : i32 to f32
  %root = math.sqrt %hiddenf : f32
  %bound = arith.divf %onef, %root : f32
  %least = arith.negf %bound : f32

  %c = pos.param "c" : tensor<f32> dims() init constant(%tenth)
  %mult = pos.param "mult" : tensor<f32> dims() init constant(%onef)
  %w1 = pos.param "w1" : tensor<?xf32> dims(%hidden) init uniform(%minus1, %onef)
  %b1 = pos.param "b1" : tensor<?xf32> dims(%hidden) init uniform(%minus1, %onef)
  %w2 = pos.param "w2" : tensor<?x?xf32> dims(%heads, %hidden) init uniform(%least, %bound)
  %b2 = pos.param "b2" : tensor<?xf32> dims(%heads) init uniform(%least, %bound)

  pos.score {
  ^bb0(%s: f32):
    %h = pos.head
    %o = pos.offset
    %n = math.absi %o : i32
    %d = arith.sitofp %n : i32 to f32
    %c0 = pos.read %c[] : tensor<f32>
    %ca = math.absf %c0 : f32
    %cd = arith.mulf %ca, %d : f32
    %psi = math.log1p %cd : f32

    %i = pos.coord query
    %if = arith.sitofp %i : i32 to f32
    %m0 = pos.read %mult[] : tensor<f32>
    %ml = arith.mulf %m0, %threshold : f32
    %ma = math.absf %ml : f32
    %far = arith.maximumf %if, %ma : f32
    %cf = arith.mulf %ca, %far : f32
    %psif = math.log1p %cf : f32
    %norm = arith.addf %psif, %epsilon : f32
    %x = arith.divf %psi, %norm : f32

    %sum = pos.sum to %hidden {
    ^bb0(%k: i32):
      %a = pos.read %w1[%k] : tensor<?xf32>
      %b = pos.read %b1[%k] : tensor<?xf32>
      %ax = arith.mulf %a, %x : f32
      %z = arith.addf %ax, %b : f32
      %leaked = arith.mulf %leak, %z : f32
      %floor = arith.select %leaks, %leaked, %zerof : f32
      %y = arith.maximumf %z, %floor : f32
      %w = pos.read %w2[%h, %k] : tensor<?x?xf32>
      %term = arith.mulf %w, %y : f32
      pos.yield %term : f32
    } : f32
    %bias = pos.read %b2[%h] : tensor<?xf32>
    %u = arith.addf %s, %bias : f32
    %t = arith.addf %u, %sum : f32
    pos.yield %t : f32
  }
}
