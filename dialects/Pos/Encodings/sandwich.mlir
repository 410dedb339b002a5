// The inner product of two sinusoidal vectors of `width` lanes, compressed by
// r_h = 8 (h + 1) / H in head h. No parameters.
pos.encoding @sandwich attributes {
  formula = "s + 1 / r_h sum_(t < width / 2) cos((i - j) 10000^(-2 t / width)), r_h = 8 (h + 1) / H",
  paper = "Chi et al. 2023, Dissecting Transformer Length Extrapolation, section 5"
} {
  %width = pos.option "width" : i32 = 128 : i32 at_least 2 at_most 65536 multiple_of 2
  %two = arith.constant 2 : i32
  %terms = arith.divsi %width, %two : i32

  pos.score {
  ^bb0(%s: f32):
    %h = pos.head
    %heads = pos.extent heads
    %o = pos.offset
    %d = arith.sitofp %o : i32 to f32
    %widthf = arith.sitofp %width : i32 to f32
    %base = arith.constant 10000.0 : f32
    %minus2 = arith.constant -2.0 : f32
    %sum = pos.sum to %terms {
    ^bb0(%t: i32):
      %tf = arith.sitofp %t : i32 to f32
      %numerator = arith.mulf %minus2, %tf : f32
      %exponent = arith.divf %numerator, %widthf : f32
      %frequency = math.powf %base, %exponent : f32
      %angle = arith.mulf %d, %frequency : f32
      %c = math.cos %angle : f32
      pos.yield %c : f32
    } : f32
    %one = arith.constant 1 : i32
    %eight = arith.constant 8.0 : f32
    %number = arith.addi %h, %one : i32
    %numberf = arith.sitofp %number : i32 to f32
    %headsf = arith.sitofp %heads : i32 to f32
    %compressed = arith.mulf %eight, %numberf : f32
    %inverse = arith.divf %headsf, %compressed : f32
    %b = arith.mulf %inverse, %sum : f32
    %u = arith.addf %s, %b : f32
    pos.yield %u : f32
  }
}
