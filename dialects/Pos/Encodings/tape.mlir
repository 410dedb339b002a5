// Rotation by a state: every head of every token has a complex number z per pair of
// lanes t and t + d/2, by which queries and keys are multiplied. It need not have
// the modulus 1; with z = exp(i p w_t) this is `rope`, bit for bit. Turning all z by
// one angle changes no score.
//
// In a model the state begins as RoPE's (options base, scaling, factor and
// train_length are RoPE's), and every layer adds to it. With `form = released`, the
// default, as the released code does:
//   after attention  z + s_h A_h z, A the probabilities of head h, s a number per
//                    head that starts as 0
//   after the MLP    z + W2 diag(SiLU(X m)) W1 z over the heads of a token, m the
//                    MLP's output, `hidden` gates; W1 starts as 0, X and W2 normal
// so that a model begins with the outputs of one with `rope`. `attention = false` and
// `mlp = false` (the paper's table 6) leave out one of them. The released code has a
// matrix of heads in place of s, of which it uses the sums of rows: a step of the
// optimizer there moves s by as many steps as there are heads, 12 times as far (a
// group "tape.s: rate=12" does the same here).
//
// With `form = paper` a pair's state is a matrix e of 2 x 2, at first the rotation, and
// what is added has one residual, after attention:
//   e + W2 diag(SiLU(X o)) W1 A e, o the pair of attention's output
// where W1 and W2 mix the rows of e, or all four numbers with `equivariant = false`,
// and W2 starts as 0. `attention = false` takes e for A e, `mlp = false` adds nothing.
// `tensor = false` leaves one row: a state is the complex number z, and W1 and W2 mix
// its one row, or, not equivariant, its two numbers. (The paper says neither what takes
// the place of its tensors nor how its 12 blocks of 64 lanes go with rotations of 2;
// pairs as blocks is the reading that agrees with its scores.)
//
// The state is one tensor of a model, [zr, zi] side by side, or the rows [zr, zi, yr,
// yi] of the matrices, of which y is what the second lane of a pair is multiplied by;
// and one more value of attention. Where attention stands alone its caller gives zr
// and zi, and the state as a second value: sextant.attention(q, k, (v, torch.cat([zr,
// zi], -1)), ["causal", "tape"], ...). Rows are those of the keys of a call. Queries
// read them at their index, those before the first key at that. The released code
// holds each number twice, as cosine and sine of all d channels of which the halves
// stay equal; here it stands once.
//
// Keys are turned by the state of their own head, so that grouped queries are
// refused.
pos.encoding @tape attributes {
  extends = #pos.use<@rope, "rope", {pairing = "half", base = @base, scaling = @scaling,
                                     factor = @factor, train_length = @train_length}>,
  formula = "pair t of q and k, as a complex number, times zr + i zi at (batch, head, token, t); or its lanes times the rows of a matrix",
  paper = "Zhu et al. 2025, TAPE, section 3"
} {
  %form = pos.option "form" : i32 = "released" of ["released", "paper"]
  %attention = pos.option "attention" : i1 = true
  %mlp = pos.option "mlp" : i1 = true
  %equivariant = pos.option "equivariant" : i1 = true
  %tensor = pos.option "tensor" : i1 = true
  %hidden = pos.option "hidden" : i32 = 48 : i32 at_least 1
  %base = pos.option "base" : f32 = 10000.0 : f32 above 0
  %scaling = pos.option "scaling" : i32 = "none" of ["none", "linear", "ntk", "yarn"]
  %factor = pos.option "factor" : f32 = 1.0 : f32 above 0
  %train_length = pos.option "train_length" : i32 = 0 : i32 at_least 0
  %first = arith.constant 1 : i32
  %is_paper = arith.cmpi eq, %form, %first : i32
  %is_matrix = arith.andi %is_paper, %tensor : i1

  %batch = pos.extent batch
  %heads = pos.extent heads
  %keys = pos.extent key
  %dim = pos.extent head_dim
  %two = arith.constant 2 : i32
  %pairs = arith.divsi %dim, %two : i32
  %zr = pos.param "zr" : tensor<?x?x?x?xf32> dims(%batch, %heads, %keys, %pairs)
  %zi = pos.param "zi" : tensor<?x?x?x?xf32> dims(%batch, %heads, %keys, %pairs)
  %yr = pos.param "yr" : tensor<?x?x?x?xf32> dims(%batch, %heads, %keys, %pairs)
  %yi = pos.param "yi" : tensor<?x?x?x?xf32> dims(%batch, %heads, %keys, %pairs)

  // The weights of a layer: X reads the MLP's output, or a pair; W1 and W2 mix heads,
  // or a pair's rows or numbers.
  %width = pos.extent model
  %none = arith.constant 0.0 : f32
  %small = arith.constant 0.02 : f32
  %rows = arith.select %tensor, %two, %first : i32
  %numbers = arith.muli %rows, %two : i32
  %of_pair = arith.select %equivariant, %rows, %numbers : i32
  %mixed = arith.select %is_paper, %of_pair, %heads : i32
  %read = arith.select %is_paper, %two, %width : i32
  %w1_size = arith.select %is_paper, %small, %none : f32
  %w2_size = arith.select %is_paper, %none, %small : f32
  %weight_s = pos.param "s" : tensor<?xf32> dims(%heads) init constant(%none)
  %weight_x = pos.param "x" : tensor<?x?xf32> dims(%hidden, %read) init normal(%none, %small)
  %weight_w1 = pos.param "w1" : tensor<?x?xf32> dims(%hidden, %mixed) init normal(%none, %w1_size)
  %weight_w2 = pos.param "w2" : tensor<?x?xf32> dims(%mixed, %hidden) init normal(%none, %w2_size)

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
    %e = pos.read %yr[%b, %h, %i, %t] : tensor<?x?x?x?xf32>
    %f = pos.read %yi[%b, %h, %i, %t] : tensor<?x?x?x?xf32>
    %xc = arith.mulf %x, %c : f32
    %ys = arith.mulf %y, %s : f32
    %turned1 = arith.subf %xc, %ys : f32
    %ye = arith.mulf %y, %e : f32
    %mapped1 = arith.addf %xc, %ye : f32
    %u = arith.select %is_matrix, %mapped1, %turned1 : f32
    %xs = arith.mulf %x, %s : f32
    %yc = arith.mulf %y, %c : f32
    %turned2 = arith.addf %xs, %yc : f32
    %yf = arith.mulf %y, %f : f32
    %mapped2 = arith.addf %xs, %yf : f32
    %v = arith.select %is_matrix, %mapped2, %turned2 : f32
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
    %e = pos.read %yr[%b, %h, %i, %t] : tensor<?x?x?x?xf32>
    %f = pos.read %yi[%b, %h, %i, %t] : tensor<?x?x?x?xf32>
    %xc = arith.mulf %x, %c : f32
    %ys = arith.mulf %y, %s : f32
    %turned1 = arith.subf %xc, %ys : f32
    %ye = arith.mulf %y, %e : f32
    %mapped1 = arith.addf %xc, %ye : f32
    %u = arith.select %is_matrix, %mapped1, %turned1 : f32
    %xs = arith.mulf %x, %s : f32
    %yc = arith.mulf %y, %c : f32
    %turned2 = arith.addf %xs, %yc : f32
    %yf = arith.mulf %y, %f : f32
    %mapped2 = arith.addf %xs, %yf : f32
    %v = arith.select %is_matrix, %mapped2, %turned2 : f32
    pos.yield %u, %v : f32, f32
  }

  // RoPE's own map of the pairs (1, 0), the same for all heads.
  func.func @initial_state(%p: tensor<?x?x?xi32> {pos.role = "positions"},
                           %input: tensor<?x?x?xf32> {pos.role = "input"},
                           %which: i32 {pos.role = "form"}, %tensors: i1 {pos.role = "tensor"})
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
    %single = arith.constant 1 : i32
    %axes = tensor.dim %p, %c2 : tensor<?x?x?xi32>
    %axes32 = arith.index_cast %axes : index to i32
    pos.require %axes32 at_most %single, "positions of this model have more coordinates than the one that RoPE turns by; count tokens by their index"

    %lane = nn.iota length %d : tensor<?xi32>
    %end = nn.scalar %half : tensor<i32>
    %is_first = nn.less %lane, %end : (tensor<?xi32>, tensor<i32>) -> tensor<?xi1>
    %unit = nn.cast %is_first : tensor<?xi1> -> tensor<?xf32>
    %axis = nn.slice %p dim 2 start 0 length 1 : (tensor<?x?x?xi32>) -> tensor<?x?x1xi32>
    %is_row = nn.equal %axis, %axis : (tensor<?x?x1xi32>, tensor<?x?x1xi32>) -> tensor<?x?x1xi1>
    %row = nn.cast %is_row : tensor<?x?x1xi1> -> tensor<?x?x1xf32>
    %open = nn.mul %row, %unit : (tensor<?x?x1xf32>, tensor<?xf32>) -> tensor<?x?x?xf32>
    %mixed_rows = nn.reshape %open sizes(%own, %l, %d) : tensor<?x?x?xf32> -> tensor<?x?x?xf32>
    %turned = pos.map_rows %mixed_rows of query
      uses [#pos.use<@rope, "rope", {pairing = "half", base = @base, scaling = @scaling,
                                     factor = @factor, train_length = @train_length}>]
      positions(%p : tensor<?x?x?xi32>) : tensor<?x?x?xf32> -> tensor<?x?x?xf32>
    %one_head = nn.reshape %turned sizes(%own, %l, %d) : tensor<?x?x?xf32> -> tensor<?x1x?x?xf32>

    // Only the sizes of the input count.
    %any = nn.stop_gradient %input : (tensor<?x?x?xf32>) -> tensor<?x?x?xf32>
    %split = nn.reshape %any sizes(%b, %l, %h, %d) : tensor<?x?x?xf32> -> tensor<?x?x?x?xf32>
    %like = nn.transpose %split 1, 2 : (tensor<?x?x?x?xf32>) -> tensor<?x?x?x?xf32>
    %z = nn.broadcast %one_head, %like : (tensor<?x1x?x?xf32>, tensor<?x?x?x?xf32>) -> tensor<?x?x?x?xf32>

    // The second row of a rotation is i times the first.
    %one = arith.constant 1 : i32
    %by_paper = arith.cmpi eq, %which, %one : i32
    %of_matrices = arith.andi %by_paper, %tensors : i1
    %state = scf.if %of_matrices -> tensor<?x?x?x?xf32> {
      %re = nn.slice %one_head dim 3 start %c0 length %half
        : (tensor<?x1x?x?xf32>, index, index) -> tensor<?x1x?x?xf32>
      %im = nn.slice %one_head dim 3 start %half length %half
        : (tensor<?x1x?x?xf32>, index, index) -> tensor<?x1x?x?xf32>
      %minus = nn.neg %im : (tensor<?x1x?x?xf32>) -> tensor<?x1x?x?xf32>
      %second = nn.concat %minus, %re dim 3 : (tensor<?x1x?x?xf32>, tensor<?x1x?x?xf32>) -> tensor<?x1x?x?xf32>
      %y = nn.broadcast %second, %like : (tensor<?x1x?x?xf32>, tensor<?x?x?x?xf32>) -> tensor<?x?x?x?xf32>
      %both = nn.concat %z, %y dim 3 : (tensor<?x?x?x?xf32>, tensor<?x?x?x?xf32>) -> tensor<?x?x?x?xf32>
      scf.yield %both : tensor<?x?x?x?xf32>
    } else {
      scf.yield %z : tensor<?x?x?x?xf32>
    }
    return %state : tensor<?x?x?x?xf32>
  }

  func.func @produce(%z: tensor<?x?x?x?xf32> {pos.role = "z"},
                     %which: i32 {pos.role = "form"}, %tensors: i1 {pos.role = "tensor"})
      -> (tensor<?x?x?x?xf32> {pos.role = "zr"}, tensor<?x?x?x?xf32> {pos.role = "zi"},
          tensor<?x?x?x?xf32> {pos.role = "yr"}, tensor<?x?x?x?xf32> {pos.role = "yi"}) {
    %c0 = arith.constant 0 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %one = arith.constant 1 : i32
    %d32 = pos.extent head_dim
    %d = arith.index_cast %d32 : i32 to index
    %half = arith.divsi %d, %c2 : index
    %re = nn.slice %z dim 3 start %c0 length %half
      : (tensor<?x?x?x?xf32>, index, index) -> tensor<?x?x?x?xf32>
    %im = nn.slice %z dim 3 start %half length %half
      : (tensor<?x?x?x?xf32>, index, index) -> tensor<?x?x?x?xf32>
    %by_paper = arith.cmpi eq, %which, %one : i32
    %of_matrices = arith.andi %by_paper, %tensors : i1
    %re2, %im2 = scf.if %of_matrices -> (tensor<?x?x?x?xf32>, tensor<?x?x?x?xf32>) {
      %last = arith.muli %half, %c3 : index
      %second_re = nn.slice %z dim 3 start %d length %half
        : (tensor<?x?x?x?xf32>, index, index) -> tensor<?x?x?x?xf32>
      %second_im = nn.slice %z dim 3 start %last length %half
        : (tensor<?x?x?x?xf32>, index, index) -> tensor<?x?x?x?xf32>
      scf.yield %second_re, %second_im : tensor<?x?x?x?xf32>, tensor<?x?x?x?xf32>
    } else {
      scf.yield %re, %im : tensor<?x?x?x?xf32>, tensor<?x?x?x?xf32>
    }
    return %re, %im, %re2, %im2
      : tensor<?x?x?x?xf32>, tensor<?x?x?x?xf32>, tensor<?x?x?x?xf32>, tensor<?x?x?x?xf32>
  }

  func.func @after_attention(%z: tensor<?x?x?x?xf32> {pos.role = "z"},
                             %seen: tensor<?x?x?x?xf32> {pos.weighted = "z"},
                             %output: tensor<?x?x?xf32> {pos.role = "attention"},
                             %share: tensor<?xf32> {pos.role = "s"},
                             %to_gate: tensor<?x?xf32> {pos.role = "x"},
                             %down: tensor<?x?xf32> {pos.role = "w1"},
                             %up: tensor<?x?xf32> {pos.role = "w2"},
                             %which: i32 {pos.role = "form"},
                             %attends: i1 {pos.option = "attention"},
                             %mixes: i1 {pos.option = "mlp"})
      -> (tensor<?x?x?x?xf32> {pos.role = "z"}) {
    %one = arith.constant 1 : i32
    %by_paper = arith.cmpi eq, %which, %one : i32
    %next = scf.if %by_paper -> tensor<?x?x?x?xf32> {
      %joint = scf.if %mixes -> tensor<?x?x?x?xf32> {
        %context = scf.if %attends -> tensor<?x?x?x?xf32> {
          scf.yield %seen : tensor<?x?x?x?xf32>
        } else {
          scf.yield %z : tensor<?x?x?x?xf32>
        }
        %part = func.call @mix_pairs(%context, %output, %to_gate, %down, %up)
          : (tensor<?x?x?x?xf32>, tensor<?x?x?xf32>, tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x?xf32>)
          -> tensor<?x?x?x?xf32>
        %sum = nn.add %z, %part : (tensor<?x?x?x?xf32>, tensor<?x?x?x?xf32>) -> tensor<?x?x?x?xf32>
        scf.yield %sum : tensor<?x?x?x?xf32>
      } else {
        scf.yield %z : tensor<?x?x?x?xf32>
      }
      scf.yield %joint : tensor<?x?x?x?xf32>
    } else {
      %released = scf.if %attends -> tensor<?x?x?x?xf32> {
        %h32 = pos.extent heads
        %h = arith.index_cast %h32 : i32 to index
        %by_head = nn.reshape %share sizes(%h) : tensor<?xf32> -> tensor<?x1x1xf32>
        %part = nn.mul %seen, %by_head : (tensor<?x?x?x?xf32>, tensor<?x1x1xf32>) -> tensor<?x?x?x?xf32>
        %sum = nn.add %z, %part : (tensor<?x?x?x?xf32>, tensor<?x?x?x?xf32>) -> tensor<?x?x?x?xf32>
        scf.yield %sum : tensor<?x?x?x?xf32>
      } else {
        scf.yield %z : tensor<?x?x?x?xf32>
      }
      scf.yield %released : tensor<?x?x?x?xf32>
    }
    return %next : tensor<?x?x?x?xf32>
  }

  func.func @after_mlp(%z: tensor<?x?x?x?xf32> {pos.role = "z"},
                       %output: tensor<?x?x?xf32> {pos.role = "mlp"},
                       %to_gate: tensor<?x?xf32> {pos.role = "x"},
                       %down: tensor<?x?xf32> {pos.role = "w1"},
                       %up: tensor<?x?xf32> {pos.role = "w2"},
                       %which: i32 {pos.role = "form"},
                       %mixes: i1 {pos.option = "mlp"})
      -> (tensor<?x?x?x?xf32> {pos.role = "z"}) {
    %zero = arith.constant 0 : i32
    %is_released = arith.cmpi eq, %which, %zero : i32
    %mixes_heads = arith.andi %is_released, %mixes : i1
    %next = scf.if %mixes_heads -> tensor<?x?x?x?xf32> {
      %joint = func.call @mix_heads(%z, %output, %to_gate, %down, %up)
        : (tensor<?x?x?x?xf32>, tensor<?x?x?xf32>, tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x?xf32>)
        -> tensor<?x?x?x?xf32>
      scf.yield %joint : tensor<?x?x?x?xf32>
    } else {
      scf.yield %z : tensor<?x?x?x?xf32>
    }
    return %next : tensor<?x?x?x?xf32>
  }

  // W2 diag(gate) W1 is linear in the gates: [n n, hidden] takes them to its entries.
  // Made first, and applied then, it costs a fraction of W2 (gate * (W1 z)).
  func.func private @mixers(%down: tensor<?x?xf32>, %up: tensor<?x?xf32>) -> tensor<?x?xf32> {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %gates = tensor.dim %down, %c0 : tensor<?x?xf32>
    %n = tensor.dim %down, %c1 : tensor<?x?xf32>
    %nn = arith.muli %n, %n : index
    %into = nn.reshape %up sizes(%n, %gates) : tensor<?x?xf32> -> tensor<?x1x?xf32>
    %from = nn.transpose %down 0, 1 : (tensor<?x?xf32>) -> tensor<?x?xf32>
    %all = nn.mul %into, %from : (tensor<?x1x?xf32>, tensor<?x?xf32>) -> tensor<?x?x?xf32>
    %flat = nn.reshape %all sizes(%nn, %gates) : tensor<?x?x?xf32> -> tensor<?x?xf32>
    return %flat : tensor<?x?xf32>
  }

  // z + W2 diag(gate) W1 z over the heads of a token, as one matrix of heads.
  func.func private @mix_heads(%z: tensor<?x?x?x?xf32>, %output: tensor<?x?x?xf32>,
                               %to_gate: tensor<?x?xf32>, %down: tensor<?x?xf32>, %up: tensor<?x?xf32>)
      -> tensor<?x?x?x?xf32> {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %h = tensor.dim %down, %c1 : tensor<?x?xf32>
    %hh = arith.muli %h, %h : index
    %b = tensor.dim %output, %c0 : tensor<?x?x?xf32>
    %l = tensor.dim %output, %c1 : tensor<?x?x?xf32>
    %open = nn.linear %output, %to_gate : (tensor<?x?x?xf32>, tensor<?x?xf32>) -> tensor<?x?x?xf32>
    %gate = nn.silu %open : (tensor<?x?x?xf32>) -> tensor<?x?x?xf32>
    %mixers = func.call @mixers(%down, %up) : (tensor<?x?xf32>, tensor<?x?xf32>) -> tensor<?x?xf32>
    %head = nn.iota length %h : tensor<?xi32>
    %other = nn.reshape %head sizes(%h) : tensor<?xi32> -> tensor<?x1xi32>
    %is_same = nn.equal %other, %head : (tensor<?x1xi32>, tensor<?xi32>) -> tensor<?x?xi1>
    %same = nn.cast %is_same : tensor<?x?xi1> -> tensor<?x?xf32>
    %identity = nn.reshape %same sizes(%hh) : tensor<?x?xf32> -> tensor<?xf32>
    %flat = nn.linear %gate, %mixers bias %identity
      : (tensor<?x?x?xf32>, tensor<?x?xf32>, tensor<?xf32>) -> tensor<?x?x?xf32>
    %mixing = nn.reshape %flat sizes(%b, %l, %h, %h) : tensor<?x?x?xf32> -> tensor<?x?x?x?xf32>
    %by_token = nn.transpose %z 1, 2 : (tensor<?x?x?x?xf32>) -> tensor<?x?x?x?xf32>
    %moved = nn.matmul %mixing, %by_token : (tensor<?x?x?x?xf32>, tensor<?x?x?x?xf32>) -> tensor<?x?x?x?xf32>
    %next = nn.transpose %moved 1, 2 : (tensor<?x?x?x?xf32>) -> tensor<?x?x?x?xf32>
    return %next : tensor<?x?x?x?xf32>
  }

  // W2 diag(gate) W1 e of every pair; e has W1's number of rows.
  func.func private @mix_pairs(%e: tensor<?x?x?x?xf32>, %output: tensor<?x?x?xf32>,
                               %to_gate: tensor<?x?xf32>, %down: tensor<?x?xf32>, %up: tensor<?x?xf32>)
      -> tensor<?x?x?x?xf32> {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %h32 = pos.extent heads
    %d32 = pos.extent head_dim
    %h = arith.index_cast %h32 : i32 to index
    %d = arith.index_cast %d32 : i32 to index
    %half_lanes = arith.divsi %d, %c2 : index
    %b = tensor.dim %output, %c0 : tensor<?x?x?xf32>
    %l = tensor.dim %output, %c1 : tensor<?x?x?xf32>
    %lanes = tensor.dim %e, %c3 : tensor<?x?x?x?xf32>
    %per_pair = arith.divsi %lanes, %half_lanes : index
    %mixed_rows = tensor.dim %down, %c1 : tensor<?x?xf32>
    %columns = arith.divsi %per_pair, %mixed_rows : index

    // Gates of a pair read its two lanes of the output: [B, H, L, pairs, 2].
    %split = nn.reshape %output sizes(%b, %l, %h, %half_lanes) : tensor<?x?x?xf32> -> tensor<?x?x?x2x?xf32>
    %by_head = nn.transpose %split 1, 2 : (tensor<?x?x?x2x?xf32>) -> tensor<?x?x?x2x?xf32>
    %lanes2 = nn.transpose %by_head 3, 4 : (tensor<?x?x?x2x?xf32>) -> tensor<?x?x?x?x2xf32>
    %open = nn.linear %lanes2, %to_gate : (tensor<?x?x?x?x2xf32>, tensor<?x?xf32>) -> tensor<?x?x?x?x?xf32>
    %gate = nn.silu %open : (tensor<?x?x?x?x?xf32>) -> tensor<?x?x?x?x?xf32>
    %mixers = func.call @mixers(%down, %up) : (tensor<?x?xf32>, tensor<?x?xf32>) -> tensor<?x?xf32>
    %flat = nn.linear %gate, %mixers : (tensor<?x?x?x?x?xf32>, tensor<?x?xf32>) -> tensor<?x?x?x?x?xf32>
    %mixing = nn.reshape %flat sizes(%b, %h, %l, %half_lanes, %mixed_rows, %mixed_rows)
      : tensor<?x?x?x?x?xf32> -> tensor<?x?x?x?x?x?xf32>

    %parts = nn.reshape %e sizes(%b, %h, %l, %mixed_rows, %columns, %half_lanes)
      : tensor<?x?x?x?xf32> -> tensor<?x?x?x?x?x?xf32>
    %out1 = nn.transpose %parts 4, 5 : (tensor<?x?x?x?x?x?xf32>) -> tensor<?x?x?x?x?x?xf32>
    %matrices = nn.transpose %out1 3, 4 : (tensor<?x?x?x?x?x?xf32>) -> tensor<?x?x?x?x?x?xf32>
    %moved = nn.matmul %mixing, %matrices
      : (tensor<?x?x?x?x?x?xf32>, tensor<?x?x?x?x?x?xf32>) -> tensor<?x?x?x?x?x?xf32>
    %in1 = nn.transpose %moved 3, 4 : (tensor<?x?x?x?x?x?xf32>) -> tensor<?x?x?x?x?x?xf32>
    %in2 = nn.transpose %in1 4, 5 : (tensor<?x?x?x?x?x?xf32>) -> tensor<?x?x?x?x?x?xf32>
    %joined = nn.reshape %in2 sizes(%b, %h, %l, %lanes) : tensor<?x?x?x?x?x?xf32> -> tensor<?x?x?x?xf32>
    return %joined : tensor<?x?x?x?xf32>
  }
}
