// Rotary position embedding of the first `lanes` lanes (0: all). The angle is
// a function of coordinate and lane alone, so it becomes a table made in double
// precision: exact at any length.
//
// Beyond the length of training, `scaling` says what happens, with s = factor
// and L = train_length:
//   linear       angles of all pairs divided by s (position interpolation)
//   ntk          base s^(n / (n - 2)): the slowest pair by s, the fastest by 1
//   ntk_dynamic  the same with s p / L - (s - 1) for s, where p, the largest
//                coordinate of a key plus 1, is the length in use; none up to L
//   yarn         pairs that turn less than once in L by s, those that turn more
//                than 32 times by 1, a ramp over the pairs between; the score of
//                the rotated lanes is multiplied by m^2, m = 0.1 log(s) + 1, by
//                m on both rows (none for s <= 1)
pos.encoding @rope attributes {
  formula = "pair t of q and k turns by p base^(-2 t / n), n rotated lanes; scaling changes the angle by factor s: linear p / s, ntk base s^(n / (n - 2)), yarn by pair",
  paper = "Su et al. 2021, RoFormer, section 3.2; linear: Chen et al. 2023, Extending Context Window, section 3; ntk, yarn: Peng et al. 2023, YaRN, sections 3.1 to 3.4"
} {
  %pairing = pos.option "pairing" : i32 = "half" of ["half", "interleaved"]
  %base = pos.option "base" : f32 = 10000.0 : f32 above 0
  %lanes = pos.option "lanes" : i32 = 0 : i32 at_least 0 multiple_of 2
  %scaling = pos.option "scaling" : i32 = "none" of ["none", "linear", "ntk", "ntk_dynamic", "yarn"]
  %factor = pos.option "factor" : f32 = 1.0 : f32 above 0
  %train_length = pos.option "train_length" : i32 = 0 : i32 at_least 0
  %zero = arith.constant 0 : i32
  %linear = arith.constant 1 : i32
  %ntk = arith.constant 2 : i32
  %ntk_dynamic = arith.constant 3 : i32
  %yarn = arith.constant 4 : i32
  %one = arith.constant 1.0 : f32
  %none = arith.constant 0.0 : f32
  %interpolates = arith.cmpi eq, %scaling, %linear : i32
  %divisor = arith.select %interpolates, %factor, %one : f32
  %stretches = arith.cmpi eq, %scaling, %ntk : i32
  %follows = arith.cmpi eq, %scaling, %ntk_dynamic : i32
  %ramps = arith.cmpi eq, %scaling, %yarn : i32
  %changes_base = arith.ori %stretches, %follows : i1

  // ntk_dynamic and yarn come after none, linear and ntk.
  %first_length = arith.constant 1 : i32
  %needs_length = arith.cmpi sge, %scaling, %ntk_dynamic : i32
  %least_length = arith.select %needs_length, %first_length, %train_length : i32
  pos.require %train_length at_least %least_length, "this scaling needs the option train_length"

  %trained = arith.sitofp %train_length : i32 to f32
  %long = arith.cmpf ogt, %factor, %one : f32
  %warms = arith.andi %ramps, %long : i1
  %tenth = arith.constant 0.1 : f32
  %log_factor = math.log %factor : f32
  %excess = arith.mulf %tenth, %log_factor : f32
  %warm = arith.addf %excess, %one : f32
  %temperature = arith.select %warms, %warm, %one : f32

  pos.rows of [query, key] grouping(%pairing) lanes(%zero, %lanes) {
  ^bb0(%x: f32, %y: f32):
    %p = pos.coord self
    %t = pos.lane
    %dim = pos.extent head_dim
    %all = arith.cmpi eq, %lanes, %zero : i32
    %n = arith.select %all, %dim, %lanes : i32
    %nf = arith.sitofp %n : i32 to f32
    %tf = arith.sitofp %t : i32 to f32

    // The base, for ntk.
    %last = pos.bound greatest key
    %lastf = arith.sitofp %last : i32 to f32
    %length = arith.addf %lastf, %one : f32
    %relative = arith.divf %length, %trained : f32
    %reach = arith.mulf %factor, %relative : f32
    %free = arith.subf %factor, %one : f32
    %growth = arith.subf %reach, %free : f32
    %at_least_one = arith.maximumf %growth, %one : f32
    %stretch = arith.select %follows, %at_least_one, %factor : f32
    %two = arith.constant 2.0 : f32
    %pairs_less = arith.subf %nf, %two : f32
    %power = arith.divf %nf, %pairs_less : f32
    %more = math.powf %stretch, %power : f32
    %larger = arith.mulf %base, %more : f32
    %used = arith.select %changes_base, %larger, %base : f32

    %minus2 = arith.constant -2.0 : f32
    %numerator = arith.mulf %minus2, %tf : f32
    %exponent = arith.divf %numerator, %nf : f32
    %turn = math.powf %used, %exponent : f32

    // The ramp, for yarn: pair n log(L / (2 pi r)) / (2 log base) turns r times
    // in L.
    %tau = arith.constant 6.283185307179586 : f32
    %fast = arith.constant 32.0 : f32
    %turns_once = arith.divf %trained, %tau : f32
    %turns_fast = arith.divf %turns_once, %fast : f32
    %log_once = math.log %turns_once : f32
    %log_fast = math.log %turns_fast : f32
    %log_base = math.log %base : f32
    %log_base2 = arith.mulf %two, %log_base : f32
    %per_log = arith.divf %nf, %log_base2 : f32
    %pair_once = arith.mulf %per_log, %log_once : f32
    %pair_fast = arith.mulf %per_log, %log_fast : f32
    %below = math.floor %pair_fast : f32
    %above = math.ceil %pair_once : f32
    %last_lane = arith.subf %nf, %one : f32
    %low = arith.maximumf %below, %none : f32
    %high = arith.minimumf %above, %last_lane : f32
    %same = arith.cmpf oeq, %low, %high : f32
    %sliver = arith.constant 0.001 : f32
    %wider = arith.addf %high, %sliver : f32
    %end = arith.select %same, %wider, %high : f32
    %width = arith.subf %end, %low : f32
    %from = arith.subf %tf, %low : f32
    %part = arith.divf %from, %width : f32
    %positive = arith.maximumf %part, %none : f32
    %ramp = arith.minimumf %positive, %one : f32
    %kept = arith.subf %one, %ramp : f32
    %interpolated = arith.divf %ramp, %factor : f32
    %blend = arith.addf %kept, %interpolated : f32
    %blended = arith.mulf %turn, %blend : f32
    %frequency = arith.select %ramps, %blended, %turn : f32

    %pf = arith.sitofp %p : i32 to f32
    %turns = arith.mulf %pf, %frequency : f32
    %angle = arith.divf %turns, %divisor : f32
    %cosine = math.cos %angle : f32
    %sine = math.sin %angle : f32
    %c = arith.mulf %cosine, %temperature : f32
    %n1 = arith.mulf %sine, %temperature : f32
    %xc = arith.mulf %x, %c : f32
    %yn = arith.mulf %y, %n1 : f32
    %u = arith.subf %xc, %yn : f32
    %xn = arith.mulf %x, %n1 : f32
    %yc = arith.mulf %y, %c : f32
    %v = arith.addf %xn, %yc : f32
    pos.yield %u, %v : f32, f32
  }
}
