// Rows turned by the exponential of a learned skew matrix: dense rotations of
// whole blocks of lanes, where rope turns pairs. The matrix is the sum over the
// axes of position times generator; of each generator only the triangle above
// the diagonal counts. Lanes beyond the last whole block pass through. A token at
// the origin is not turned, and with `outside` no token with a negative coordinate
// is.
//
// Generators of several axes do not commute, so the score then depends on both
// positions and not on their difference alone. `axes` (1 to 3) says how many
// coordinates there are; without positions each is the index.
//
// The released code measures positions in images: a grid of S by S in training
// has unit = 1 / (S - 1). With unit 1 a step at the initial values is a rotation
// by many turns. The initial values are those of the code, whose shift by one
// half cancels. Its blocks are the whole head (block 0) or 8 lanes.
pos.encoding @liere attributes {
  formula = "block x of q and k becomes exp(unit sum_a p_a (G_a - G_a^T)) x, G_a = gen[a] above its diagonal",
  paper = "Ostmeier et al. 2024, LieRE: Generalizing Rotary Position Encodings, section 4"
} {
  %axes = pos.option "axes" : i32 = 2 : i32 at_least 1 at_most 3
  %block = pos.option "block" : i32 = 0 : i32 at_least 0
  %per_head = pos.option "per_head" : i1 = false
  %unit = pos.option "unit" : f32 = 1.0 : f32
  %outside = pos.option "outside" : i1 = false
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32

  %dim = pos.extent head_dim
  %heads = pos.extent heads
  %whole = arith.cmpi eq, %block, %zero : i32
  %size = arith.select %whole, %dim, %block : i32
  pos.require %size at_most %dim, "a block has more lanes than the head"
  // Exact for numbers of lanes; a division of integers has no meaning for a 0.
  %dimf = arith.sitofp %dim : i32 to f32
  %sizef = arith.sitofp %size : i32 to f32
  %quotient = arith.divf %dimf, %sizef : f32
  %blocks = arith.fptosi %quotient : f32 to i32
  %copies = arith.select %per_head, %heads, %one : i32
  %low = arith.constant 0.0 : f32
  %turn = arith.constant 6.283185307179586 : f32
  %gen = pos.param "gen" : tensor<?x?x?x?x?xf32> dims(%axes, %copies, %blocks, %size, %size)
    init uniform(%low, %turn)

  pos.turn_rows of [query, key] blocks %size {
  ^bb0(%n: i32, %r: i32, %c: i32):
    %head = pos.head
    %h = arith.select %per_head, %head, %zero : i32
    %p0 = pos.coord self
    %p1 = pos.coord self axis 1
    %p2 = pos.coord self axis 2
    %two = arith.constant 2 : i32
    %second = arith.cmpi sgt, %axes, %one : i32
    %third = arith.cmpi sgt, %axes, %two : i32
    %none = arith.constant 0.0 : f32
    %a1 = arith.select %second, %one, %zero : i32
    %a2 = arith.select %third, %two, %zero : i32

    // Above the diagonal the element itself, below it minus its mirror image.
    %least = arith.minsi %r, %c : i32
    %most = arith.maxsi %r, %c : i32
    %g0 = pos.read %gen[%zero, %h, %n, %least, %most] : tensor<?x?x?x?x?xf32>
    %g1 = pos.read %gen[%a1, %h, %n, %least, %most] : tensor<?x?x?x?x?xf32>
    %g2 = pos.read %gen[%a2, %h, %n, %least, %most] : tensor<?x?x?x?x?xf32>
    %f0 = arith.sitofp %p0 : i32 to f32
    %f1 = arith.sitofp %p1 : i32 to f32
    %f2 = arith.sitofp %p2 : i32 to f32
    %x0 = arith.mulf %f0, %g0 : f32
    %y1 = arith.mulf %f1, %g1 : f32
    %y2 = arith.mulf %f2, %g2 : f32
    %x1 = arith.select %second, %y1, %none : f32
    %x2 = arith.select %third, %y2, %none : f32
    %x01 = arith.addf %x0, %x1 : f32
    %x012 = arith.addf %x01, %x2 : f32
    %scaled = arith.mulf %x012, %unit : f32

    %l1 = arith.select %second, %p1, %zero : i32
    %l2 = arith.select %third, %p2, %zero : i32
    %l01 = arith.minsi %p0, %l1 : i32
    %l012 = arith.minsi %l01, %l2 : i32
    %negative = arith.cmpi slt, %l012, %zero : i32
    %alone = arith.andi %outside, %negative : i1
    %x = arith.select %alone, %none, %scaled : f32

    %minus = arith.negf %x : f32
    %above = arith.cmpi sgt, %c, %r : i32
    %below = arith.cmpi slt, %c, %r : i32
    %lower = arith.select %below, %minus, %none : f32
    %y = arith.select %above, %x, %lower : f32
    pos.yield %y : f32
  }
}
