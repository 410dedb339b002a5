// Rotation by a state: every head of every token has a complex number z per pair of
// lanes t and t + d/2, by which queries and keys are multiplied. It need not have
// the modulus 1; with z = exp(i p w_t) this is `rope`, bit for bit. Turning all z by
// one angle changes no score.
//
// In a model the state begins as RoPE's (options base, scaling, factor and
// train_length are RoPE's), and every layer adds to it, as the released code does:
//   after attention  z + s_h A_h z, A the probabilities of head h, s a number per
//                    head that starts as 0
//   after the MLP    z + W2 diag(SiLU(X m)) W1 z over the heads of a token, m the
//                    MLP's output, `hidden` gates; W1 starts as 0, X and W2 normal
// so that a model begins with the outputs of one with `rope`. The released code has a
// matrix of heads in place of s, of which it uses the sums of rows: a step of the
// optimizer there moves s by as many steps as there are heads, 12 times as far (a
// group "tape.s: rate=12" does the same here).
//
// The state is one tensor of a model, [zr, zi] side by side, and one more value of
// attention. Where attention stands alone its caller gives zr and zi, and the state
// as a second value: sextant.attention(q, k, (v, torch.cat([zr, zi], -1)), ["causal",
// "tape"], ...). Rows are those of the keys of a call. Queries read them at their
// index, those before the first key at that. The released code holds each number
// twice, as cosine and sine of all d channels of which the halves stay equal; here
// it stands once.
//
// Keys are turned by the state of their own head, so that grouped queries are
// refused.
pos.encoding @tape attributes {
  extends = #pos.use<@rope, "rope", {pairing = "half", base = @base, scaling = @scaling,
                                     factor = @factor, train_length = @train_length}>,
  formula = "pair t of q and k, as a complex number, times zr + i zi at (batch, head, token, t)",
  paper = "Zhu et al. 2025, TAPE, section 3"
} {
  %hidden = pos.option "hidden" : i32 = 48 : i32 at_least 1
  %base = pos.option "base" : f32 = 10000.0 : f32 above 0
  %scaling = pos.option "scaling" : i32 = "none" of ["none", "linear", "ntk", "yarn"]
  %factor = pos.option "factor" : f32 = 1.0 : f32 above 0
  %train_length = pos.option "train_length" : i32 = 0 : i32 at_least 0

  %batch = pos.extent batch
  %heads = pos.extent heads
  %keys = pos.extent key
  %dim = pos.extent head_dim
  %two = arith.constant 2 : i32
  %pairs = arith.divsi %dim, %two : i32
  %zr = pos.param "zr" : tensor<?x?x?x?xf32> dims(%batch, %heads, %keys, %pairs)
  %zi = pos.param "zi" : tensor<?x?x?x?xf32> dims(%batch, %heads, %keys, %pairs)

  // The weights of a layer.
  %width = pos.extent model
  %none = arith.constant 0.0 : f32
  %small = arith.constant 0.02 : f32
  %weight_s = pos.param "s" : tensor<?xf32> dims(%heads) init constant(%none)
  %weight_x = pos.param "x" : tensor<?x?xf32> dims(%hidden, %width) init normal(%none, %small)
  %weight_w1 = pos.param "w1" : tensor<?x?xf32> dims(%hidden, %heads) init constant(%none)
  %weight_w2 = pos.param "w2" : tensor<?x?xf32> dims(%heads, %hidden) init normal(%none, %small)

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

  // RoPE's own map of the pairs (1, 0), the same for all heads.
  func.func @initial_state(%p: tensor<?x?x?xi32> {pos.role = "positions"},
                           %input: tensor<?x?x?xf32> {pos.role = "input"})
      -> (tensor<?x?x?x?xf32> {pos.role = "z"}) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %h32 = pos.extent heads
    %d32 = pos.extent head_dim
    %h = arith.index_cast %h32 : i32 to index
    %d = arith.index_cast %d32 : i32 to index
    %half = arith.divsi %d, %c2 : index
    %b = tensor.dim %input, %c0 : tensor<?x?x?xf32>
    %l = tensor.dim %input, %c1 : tensor<?x?x?xf32>
    %own = tensor.dim %p, %c0 : tensor<?x?x?xi32>

    %lane = nn.iota length %d : tensor<?xi32>
    %end = nn.scalar %half : tensor<i32>
    %is_first = nn.less %lane, %end : (tensor<?xi32>, tensor<i32>) -> tensor<?xi1>
    %pairs1 = nn.cast %is_first : tensor<?xi1> -> tensor<?xf32>
    %axis = nn.slice %p dim 2 start 0 length 1 : (tensor<?x?x?xi32>) -> tensor<?x?x1xi32>
    %is_row = nn.equal %axis, %axis : (tensor<?x?x1xi32>, tensor<?x?x1xi32>) -> tensor<?x?x1xi1>
    %row = nn.cast %is_row : tensor<?x?x1xi1> -> tensor<?x?x1xf32>
    %open = nn.mul %row, %pairs1 : (tensor<?x?x1xf32>, tensor<?xf32>) -> tensor<?x?x?xf32>
    %rows = nn.reshape %open sizes(%own, %l, %d) : tensor<?x?x?xf32> -> tensor<?x?x?xf32>
    %turned = pos.map_rows %rows of query
      uses [#pos.use<@rope, "rope", {pairing = "half", base = @base, scaling = @scaling,
                                     factor = @factor, train_length = @train_length}>]
      positions(%p : tensor<?x?x?xi32>) : tensor<?x?x?xf32> -> tensor<?x?x?xf32>
    %one_head = nn.reshape %turned sizes(%own, %l, %d) : tensor<?x?x?xf32> -> tensor<?x1x?x?xf32>

    // Only the sizes of the input count.
    %any = nn.stop_gradient %input : (tensor<?x?x?xf32>) -> tensor<?x?x?xf32>
    %split = nn.reshape %any sizes(%b, %l, %h, %d) : tensor<?x?x?xf32> -> tensor<?x?x?x?xf32>
    %like = nn.transpose %split 1, 2 : (tensor<?x?x?x?xf32>) -> tensor<?x?x?x?xf32>
    %z = nn.broadcast %one_head, %like : (tensor<?x1x?x?xf32>, tensor<?x?x?x?xf32>) -> tensor<?x?x?x?xf32>
    return %z : tensor<?x?x?x?xf32>
  }

  func.func @produce(%z: tensor<?x?x?x?xf32> {pos.role = "z"})
      -> (tensor<?x?x?x?xf32> {pos.role = "zr"}, tensor<?x?x?x?xf32> {pos.role = "zi"}) {
    %c0 = arith.constant 0 : index
    %c2 = arith.constant 2 : index
    %d32 = pos.extent head_dim
    %d = arith.index_cast %d32 : i32 to index
    %half = arith.divsi %d, %c2 : index
    %re = nn.slice %z dim 3 start %c0 length %half
      : (tensor<?x?x?x?xf32>, index, index) -> tensor<?x?x?x?xf32>
    %im = nn.slice %z dim 3 start %half length %half
      : (tensor<?x?x?x?xf32>, index, index) -> tensor<?x?x?x?xf32>
    return %re, %im : tensor<?x?x?x?xf32>, tensor<?x?x?x?xf32>
  }

  // z + s_h (A z): each head's share of what its probabilities made of the state.
  func.func @after_attention(%z: tensor<?x?x?x?xf32> {pos.role = "z"},
                             %seen: tensor<?x?x?x?xf32> {pos.weighted = "z"},
                             %share: tensor<?xf32> {pos.role = "s"})
      -> (tensor<?x?x?x?xf32> {pos.role = "z"}) {
    %h32 = pos.extent heads
    %h = arith.index_cast %h32 : i32 to index
    %by_head = nn.reshape %share sizes(%h) : tensor<?xf32> -> tensor<?x1x1xf32>
    %part = nn.mul %seen, %by_head : (tensor<?x?x?x?xf32>, tensor<?x1x1xf32>) -> tensor<?x?x?x?xf32>
    %next = nn.add %z, %part : (tensor<?x?x?x?xf32>, tensor<?x?x?x?xf32>) -> tensor<?x?x?x?xf32>
    return %next : tensor<?x?x?x?xf32>
  }

  // z + W2 diag(gate) W1 z over the heads of a token, as one matrix of heads
  // I + W2 diag(gate) W1 that is made by a product of the gates with all w2 w1.
  func.func @after_mlp(%z: tensor<?x?x?x?xf32> {pos.role = "z"},
                       %mlp: tensor<?x?x?xf32> {pos.role = "mlp"},
                       %to_gate: tensor<?x?xf32> {pos.role = "x"},
                       %down: tensor<?x?xf32> {pos.role = "w1"},
                       %up: tensor<?x?xf32> {pos.role = "w2"},
                       %n32: i32 {pos.role = "hidden"})
      -> (tensor<?x?x?x?xf32> {pos.role = "z"}) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %h32 = pos.extent heads
    %h = arith.index_cast %h32 : i32 to index
    %n = arith.index_cast %n32 : i32 to index
    %hh = arith.muli %h, %h : index
    %b = tensor.dim %mlp, %c0 : tensor<?x?x?xf32>
    %l = tensor.dim %mlp, %c1 : tensor<?x?x?xf32>

    %rows = nn.linear %mlp, %to_gate : (tensor<?x?x?xf32>, tensor<?x?xf32>) -> tensor<?x?x?xf32>
    %gate = nn.silu %rows : (tensor<?x?x?xf32>) -> tensor<?x?x?xf32>
    %into = nn.reshape %up sizes(%h, %n) : tensor<?x?xf32> -> tensor<?x1x?xf32>
    %from = nn.transpose %down 0, 1 : (tensor<?x?xf32>) -> tensor<?x?xf32>
    %pairs2 = nn.mul %into, %from : (tensor<?x1x?xf32>, tensor<?x?xf32>) -> tensor<?x?x?xf32>
    %mixers = nn.reshape %pairs2 sizes(%hh, %n) : tensor<?x?x?xf32> -> tensor<?x?xf32>
    %head = nn.iota length %h : tensor<?xi32>
    %other = nn.reshape %head sizes(%h) : tensor<?xi32> -> tensor<?x1xi32>
    %is_same = nn.equal %other, %head : (tensor<?x1xi32>, tensor<?xi32>) -> tensor<?x?xi1>
    %same = nn.cast %is_same : tensor<?x?xi1> -> tensor<?x?xf32>
    %unit = nn.reshape %same sizes(%hh) : tensor<?x?xf32> -> tensor<?xf32>
    %mixed = nn.linear %gate, %mixers bias %unit
      : (tensor<?x?x?xf32>, tensor<?x?xf32>, tensor<?xf32>) -> tensor<?x?x?xf32>
    %mixing = nn.reshape %mixed sizes(%b, %l, %h, %h) : tensor<?x?x?xf32> -> tensor<?x?x?x?xf32>
    %by_token = nn.transpose %z 1, 2 : (tensor<?x?x?x?xf32>) -> tensor<?x?x?x?xf32>
    %moved = nn.matmul %mixing, %by_token : (tensor<?x?x?x?xf32>, tensor<?x?x?x?xf32>) -> tensor<?x?x?x?xf32>
    %next = nn.transpose %moved 1, 2 : (tensor<?x?x?x?xf32>) -> tensor<?x?x?x?xf32>
    return %next : tensor<?x?x?x?xf32>
  }
}
