// Sinusoids added to the embedding: sine and cosine of frequency t stand in
// lanes 2t and 2t + 1 (interleaved) or t and t + C/2 (halves).
pos.encoding @sinusoidal attributes {
  formula = "x + (sin(p w_t), cos(p w_t)), w_t = base^(-2 t / C)",
  paper = "Vaswani et al. 2017, Attention Is All You Need, section 3.5"
} {
  %base = pos.option "base" : f32 = 10000.0 : f32 above 0
  %layout = pos.option "layout" : i32 = "interleaved" of ["halves", "interleaved"]
  pos.rows of [embedding] grouping(%layout) {
  ^bb0(%x: f32, %y: f32):
    %p = pos.coord self
    %t = pos.lane
    %width = pos.extent model
    %widthf = arith.sitofp %width : i32 to f32
    %tf = arith.sitofp %t : i32 to f32
    %minus2 = arith.constant -2.0 : f32
    %numerator = arith.mulf %minus2, %tf : f32
    %exponent = arith.divf %numerator, %widthf : f32
    %frequency = math.powf %base, %exponent : f32
    %pf = arith.sitofp %p : i32 to f32
    %angle = arith.mulf %pf, %frequency : f32
    %sine = math.sin %angle : f32
    %cosine = math.cos %angle : f32
    %u = arith.addf %x, %sine : f32
    %v = arith.addf %y, %cosine : f32
    pos.yield %u, %v : f32, f32
  }
}
