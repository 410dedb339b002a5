// Rotary position embedding whose pairs also decay with the distance: the query
// is scaled by zeta_t^(p / scale_base), the key by the inverse. The coordinate p
// counts from the middle of the keys' range, once per call, which the score does
// not see but f32 does: rows of 64 scale_base keys span e^40 either way.
//
// Where the coordinates of queries and keys span more than 64 scale_base, the call
// is an error. A key after the query would grow without bound, so some mask must
// hide those.
//
// The paper's scale_base is 512, as here; others train with 2048. Its attention
// by blocks at evaluation is a mask of its own and no part of this.
pos.encoding @xpos attributes {
  formula = "pair t of q turns by p w_t and is scaled by z_t^(p / scale_base), of k by z_t^(-p / scale_base); w_t = base^(-2 t / d), z_t = (2 t + 0.4 d) / (1.4 d)",
  paper = "Sun et al. 2022, A Length-Extrapolatable Transformer, section 3.1"
} {
  %scale_base = pos.option "scale_base" : i32 = 512 : i32 at_least 1 at_most 33554431
  %base = pos.option "base" : f32 = 10000.0 : f32 above 0
  %pairing = pos.option "pairing" : i32 = "interleaved" of ["half", "interleaved"]
  %zero = arith.constant 0 : i32
  %one = arith.constant 1.0 : f32
  %spans = arith.constant 64 : i32
  %most = arith.muli %spans, %scale_base : i32
  pos.require_span at_most %most, "positions of xpos span more than the safe range of its decay, 64 scale_base"
  pos.require_past "the decay needs a mask such as causal"

  pos.rows of [query] grouping(%pairing) lanes(%zero, %zero) {
  ^bb0(%x: f32, %y: f32):
    %p = pos.coord self
    %first = pos.bound least key
    %last = pos.bound greatest key
    %t = pos.lane
    %dim = pos.extent head_dim
    %pf = arith.sitofp %p : i32 to f32
    %tf = arith.sitofp %t : i32 to f32
    %df = arith.sitofp %dim : i32 to f32
    %minus2 = arith.constant -2.0 : f32
    %numerator = arith.mulf %minus2, %tf : f32
    %exponent = arith.divf %numerator, %df : f32
    %frequency = math.powf %base, %exponent : f32
    %angle = arith.mulf %pf, %frequency : f32
    %cosine = math.cos %angle : f32
    %sine = math.sin %angle : f32

    %two = arith.constant 2.0 : f32
    %t2 = arith.mulf %two, %tf : f32
    %four_tenths = arith.constant 0.4 : f32
    %offset = arith.mulf %four_tenths, %df : f32
    %above = arith.addf %t2, %offset : f32
    %whole = arith.addf %df, %offset : f32
    %zeta = arith.divf %above, %whole : f32
    %firstf = arith.sitofp %first : i32 to f32
    %lastf = arith.sitofp %last : i32 to f32
    %ends = arith.addf %firstf, %lastf : f32
    %middle = arith.divf %ends, %two : f32
    %centred = arith.subf %pf, %middle : f32
    %scale_basef = arith.sitofp %scale_base : i32 to f32
    %steps = arith.divf %centred, %scale_basef : f32
    %scale = math.powf %zeta, %steps : f32
    %c = arith.mulf %cosine, %scale : f32
    %n = arith.mulf %sine, %scale : f32
    %xc = arith.mulf %x, %c : f32
    %yn = arith.mulf %y, %n : f32
    %u = arith.subf %xc, %yn : f32
    %xn = arith.mulf %x, %n : f32
    %yc = arith.mulf %y, %c : f32
    %v = arith.addf %xn, %yc : f32
    pos.yield %u, %v : f32, f32
  }

  pos.rows of [key] grouping(%pairing) lanes(%zero, %zero) {
  ^bb0(%x: f32, %y: f32):
    %p = pos.coord self
    %first = pos.bound least key
    %last = pos.bound greatest key
    %t = pos.lane
    %dim = pos.extent head_dim
    %pf = arith.sitofp %p : i32 to f32
    %tf = arith.sitofp %t : i32 to f32
    %df = arith.sitofp %dim : i32 to f32
    %minus2 = arith.constant -2.0 : f32
    %numerator = arith.mulf %minus2, %tf : f32
    %exponent = arith.divf %numerator, %df : f32
    %frequency = math.powf %base, %exponent : f32
    %angle = arith.mulf %pf, %frequency : f32
    %cosine = math.cos %angle : f32
    %sine = math.sin %angle : f32

    %two = arith.constant 2.0 : f32
    %t2 = arith.mulf %two, %tf : f32
    %four_tenths = arith.constant 0.4 : f32
    %offset = arith.mulf %four_tenths, %df : f32
    %above = arith.addf %t2, %offset : f32
    %whole = arith.addf %df, %offset : f32
    %zeta = arith.divf %above, %whole : f32
    %firstf = arith.sitofp %first : i32 to f32
    %lastf = arith.sitofp %last : i32 to f32
    %ends = arith.addf %firstf, %lastf : f32
    %middle = arith.divf %ends, %two : f32
    %centred = arith.subf %middle, %pf : f32
    %scale_basef = arith.sitofp %scale_base : i32 to f32
    %steps = arith.divf %centred, %scale_basef : f32
    %scale = math.powf %zeta, %steps : f32
    %c = arith.mulf %cosine, %scale : f32
    %n = arith.mulf %sine, %scale : f32
    %xc = arith.mulf %x, %c : f32
    %yn = arith.mulf %y, %n : f32
    %u = arith.subf %xc, %yn : f32
    %xn = arith.mulf %x, %n : f32
    %yc = arith.mulf %y, %c : f32
    %v = arith.addf %xn, %yc : f32
    pos.yield %u, %v : f32, f32
  }
}
