// Attention with linear biases. With P the largest power of two that is at most
// H, head h < P has slope 2^(-8 (h + 1) / P); the remaining heads take every
// second slope of the list for 2 P heads, from its first.
pos.encoding @alibi attributes {
  formula = "s - m_h |i - j|; scaled: the bias times the attention's scale; later_half: + m_h / 2 where j < i",
  paper = "Press et al. 2022, Train Short, Test Long, section 3"
} {
  %scaled = pos.option "scaled" : i1 = false
  %later_half = pos.option "later_half" : i1 = false
  %heads = pos.extent heads
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %zeros = math.ctlz %heads : i32
  %top = arith.constant 31 : i32
  %log = arith.subi %top, %zeros : i32
  %power = arith.shli %one, %log : i32

  %slopes = pos.param "slopes" : tensor<?xf32> dims(%heads) frozen by {
  ^bb0(%h: i32):
    %first = arith.cmpi slt, %h, %power : i32
    %a = arith.addi %h, %one : i32
    %rest = arith.subi %h, %power : i32
    %rest2 = arith.muli %rest, %two : i32
    %b = arith.addi %rest2, %one : i32
    %power2 = arith.muli %power, %two : i32
    %step = arith.select %first, %a, %b : i32
    %count = arith.select %first, %power, %power2 : i32
    %stepf = arith.sitofp %step : i32 to f32
    %countf = arith.sitofp %count : i32 to f32
    %minus8 = arith.constant -8.0 : f32
    %numerator = arith.mulf %minus8, %stepf : f32
    %exponent = arith.divf %numerator, %countf : f32
    %slope = math.exp2 %exponent : f32
    pos.yield %slope : f32
  }

  pos.score {
  ^bb0(%s: f32):
    %h = pos.head
    %o = pos.offset
    %n = math.absi %o : i32
    %distance = arith.sitofp %n : i32 to f32
    %zero = arith.constant 0 : i32
    %none = arith.constant 0.0 : f32
    %half = arith.constant 0.5 : f32
    %before = arith.cmpi slt, %o, %zero : i32
    %shifted = arith.andi %before, %later_half : i1
    %shift = arith.select %shifted, %half, %none : f32
    %d = arith.subf %distance, %shift : f32
    %slope = pos.read %slopes[%h] : tensor<?xf32>
    %scale = pos.scale
    %product = arith.mulf %slope, %scale : f32
    %m = arith.select %scaled, %product, %slope : f32
    %b = arith.mulf %m, %d : f32
    %t = arith.subf %s, %b : f32
    pos.yield %t : f32
  }
}
