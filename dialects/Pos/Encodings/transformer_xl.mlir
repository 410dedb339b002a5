// Transformer-XL's relative attention. The key row is seen by q + u (a row map of
// the query), the distance by q + v, where q is the query as it entered. The
// sinusoid of the distance, [sin | cos], goes through wr, a part of which each
// head has: (q + v) . (wr_h r) is summed over the sinusoid's width.
pos.encoding @transformer_xl attributes {
  formula = "scale [(q_i + u_h) k_j + (q_i + v_h) (wr_h r(i - j))], r(t) = [sin(t w) | cos(t w)], w_m = 10000^(-2 m / width)",
  paper = "Dai et al. 2019, Transformer-XL, section 3.3"
} {
  %width_option = pos.option "width" : i32 = 0 : i32
  %heads = pos.extent heads
  %dim = pos.extent head_dim
  %model = pos.extent model
  %none = arith.constant 0 : i32
  %zero = arith.constant 0.0 : f32
  %deviation = arith.constant 0.02 : f32
  %all = arith.cmpi eq, %width_option, %none : i32
  %width = arith.select %all, %model, %width_option : i32

  %u = pos.param "u" : tensor<?x?xf32> dims(%heads, %dim) init normal(%zero, %deviation)
  %v = pos.param "v" : tensor<?x?xf32> dims(%heads, %dim) init normal(%zero, %deviation)
  %wr = pos.param "wr" : tensor<?x?xf32> dims(%model, %width) init normal(%zero, %deviation)

  pos.rows of [query] single {
  ^bb0(%x: f32):
    %h = pos.head
    %t = pos.lane
    %a = pos.read %u[%h, %t] : tensor<?x?xf32>
    %y = arith.addf %x, %a : f32
    pos.yield %y : f32
  }

  pos.score {
  ^bb0(%s: f32):
    %h = pos.head
    %first = arith.muli %h, %dim : i32
    %two = arith.constant 2 : i32
    %half = arith.divsi %width, %two : i32
    %o = pos.offset
    %back = arith.subi %none, %o : i32
    %distance = arith.sitofp %back : i32 to f32
    %term = pos.sum to %width {
    ^bb0(%c: i32):
      %is_sine = arith.cmpi slt, %c, %half : i32
      %late = arith.subi %c, %half : i32
      %m = arith.select %is_sine, %c, %late : i32
      %mf = arith.sitofp %m : i32 to f32
      %minus2 = arith.constant -2.0 : f32
      %widthf = arith.sitofp %width : i32 to f32
      %numerator = arith.mulf %minus2, %mf : f32
      %exponent = arith.divf %numerator, %widthf : f32
      %base = arith.constant 10000.0 : f32
      %w = math.powf %base, %exponent : f32
      %angle = arith.mulf %distance, %w : f32
      %sine = math.sin %angle : f32
      %cosine = math.cos %angle : f32
      %r = arith.select %is_sine, %sine, %cosine : f32
      %q = pos.query_dot %wr columns[%c] : tensor<?x?xf32>
      %vq = pos.sum to %dim {
      ^bb0(%t: i32):
        %row = arith.addi %first, %t : i32
        %a = pos.read %v[%h, %t] : tensor<?x?xf32>
        %b = pos.read %wr[%row, %c] : tensor<?x?xf32>
        %ab = arith.mulf %a, %b : f32
        pos.yield %ab : f32
      } : f32
      %sum = arith.addf %q, %vq : f32
      %y = arith.mulf %sum, %r : f32
      pos.yield %y : f32
    } : f32
    %scale = pos.scale
    %scaled = arith.mulf %term, %scale : f32
    %t2 = arith.addf %s, %scaled : f32
    pos.yield %t2 : f32
  }
}
