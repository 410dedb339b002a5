// Rotary position embedding of the first `lanes` lanes (0: all). The angle is
// a function of coordinate and lane alone, so it becomes a table made in double
// precision: exact at any length.
pos.encoding @rope attributes {
  formula = "pair t of q and k turns by p base^(-2 t / n), n rotated lanes; linear: p / factor",
  paper = "Su et al. 2021, RoFormer, section 3.2; linear: Chen et al. 2023, Extending Context Window, section 3"
} {
  %pairing = pos.option "pairing" : i32 = "half" of ["half", "interleaved"]
  %base = pos.option "base" : f32 = 10000.0 : f32
  %lanes = pos.option "lanes" : i32 = 0 : i32
  %scaling = pos.option "scaling" : i32 = "none" of ["none", "linear"]
  %factor = pos.option "factor" : f32 = 1.0 : f32
  %zero = arith.constant 0 : i32
  %linear = arith.constant 1 : i32
  %one = arith.constant 1.0 : f32
  %interpolates = arith.cmpi eq, %scaling, %linear : i32
  %divisor = arith.select %interpolates, %factor, %one : f32

  pos.rows of [query, key] grouping(%pairing) lanes(%zero, %lanes) {
  ^bb0(%x: f32, %y: f32):
    %p = pos.coord self
    %t = pos.lane
    %dim = pos.extent head_dim
    %all = arith.cmpi eq, %lanes, %zero : i32
    %n = arith.select %all, %dim, %lanes : i32
    %nf = arith.sitofp %n : i32 to f32
    %tf = arith.sitofp %t : i32 to f32
    %minus2 = arith.constant -2.0 : f32
    %numerator = arith.mulf %minus2, %tf : f32
    %exponent = arith.divf %numerator, %nf : f32
    %frequency = math.powf %base, %exponent : f32
    %pf = arith.sitofp %p : i32 to f32
    %turns = arith.mulf %pf, %frequency : f32
    %angle = arith.divf %turns, %divisor : f32
    %c = math.cos %angle : f32
    %n1 = math.sin %angle : f32
    %xc = arith.mulf %x, %c : f32
    %yn = arith.mulf %y, %n1 : f32
    %u = arith.subf %xc, %yn : f32
    %xn = arith.mulf %x, %n1 : f32
    %yc = arith.mulf %y, %c : f32
    %v = arith.addf %xn, %yc : f32
    pos.yield %u, %v : f32, f32
  }
}
