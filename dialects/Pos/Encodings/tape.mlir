// Rotation by a state: every head of every token has a complex number z per pair of
// lanes t and t + d/2, by which queries and keys are multiplied. It need not have
// the modulus 1; with z = exp(i p w_t) this is `rope`, bit for bit. Turning all z by
// one angle changes no score.
//
// The state comes from the graph, as its real parts zr and imaginary parts zi; rows
// are those of the keys of a call. Queries read them at their index, those before
// the first key at that. The released code holds each number twice, as cosine and
// sine of all d channels of which the halves stay equal; here it stands once. A
// layer's state contextualised by its probabilities is a second value, [zr, zi] side
// by side: sextant.attention(q, k, (v, torch.cat([zr, zi], -1)), ["causal", "tape"],
// ...).
//
// Keys are turned by the state of their own head, so that grouped queries are
// refused.
pos.encoding @tape attributes {
  formula = "pair t of q and k, as a complex number, times zr + i zi at (batch, head, token, t)",
  paper = "Zhu et al. 2025, TAPE, section 3"
} {
  %batch = pos.extent batch
  %heads = pos.extent heads
  %keys = pos.extent key
  %dim = pos.extent head_dim
  %two = arith.constant 2 : i32
  %pairs = arith.divsi %dim, %two : i32
  %zr = pos.param "zr" : tensor<?x?x?x?xf32> dims(%batch, %heads, %keys, %pairs)
  %zi = pos.param "zi" : tensor<?x?x?x?xf32> dims(%batch, %heads, %keys, %pairs)

  pos.rows of [query] half {
  ^bb0(%x: f32, %y: f32):
    %b = pos.batch
    %h = pos.head
    %t = pos.lane
    %zero = arith.constant 0 : i32
    %place = pos.index self
    %i = arith.maxsi %place, %zero : i32
    %c = pos.read %zr[%b, %h, %i, %t] : tensor<?x?x?x?xf32>
    %s = pos.read %zi[%b, %h, %i, %t] : tensor<?x?x?x?xf32>
    %xc = arith.mulf %x, %c : f32
    %ys = arith.mulf %y, %s : f32
    %u = arith.subf %xc, %ys : f32
    %xs = arith.mulf %x, %s : f32
    %yc = arith.mulf %y, %c : f32
    %v = arith.addf %xs, %yc : f32
    pos.yield %u, %v : f32, f32
  }
  pos.rows of [key] half {
  ^bb0(%x: f32, %y: f32):
    %b = pos.batch
    %h = pos.head
    %t = pos.lane
    %i = pos.tensor_row self
    %c = pos.read %zr[%b, %h, %i, %t] : tensor<?x?x?x?xf32>
    %s = pos.read %zi[%b, %h, %i, %t] : tensor<?x?x?x?xf32>
    %xc = arith.mulf %x, %c : f32
    %ys = arith.mulf %y, %s : f32
    %u = arith.subf %xc, %ys : f32
    %xs = arith.mulf %x, %s : f32
    %yc = arith.mulf %y, %c : f32
    %v = arith.addf %xs, %yc : f32
    pos.yield %u, %v : f32, f32
  }
}
