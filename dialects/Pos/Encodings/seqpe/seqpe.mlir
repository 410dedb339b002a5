// Sequential encoding of positions: a position is the sequence of its digits in
// some base, a small causal transformer reads them, and what it gives at a last
// slot, CLS, is the position's embedding. Projected to a row per head for queries,
// eq, and one for keys, ek, it acts in attention. Positions that were never seen in
// training have digits that were.
//
// `form` says how the rows act: `bias` adds their product before the scale (the
// paper's equation 14, called AttnScalar in its text and code), `mul` and `sum`
// multiply and add the rows themselves, so that keys of several query heads, whose
// map would be that of a head, are refused there. In a model the encoder below
// makes the rows, one for all layers; where attention stands alone its caller gives
// them: one row stands for one token of the call, and rows may be shared by the
// batch, [1, heads, length, head dim].
//
// The encoder. `axes` coordinates of `digits` digits each in `base`, the first
// coordinate (of an image: the row) first; leading zeros are digits. `width` is that
// of its rows (0: the model's), `heads` its heads (0: one per 64 lanes). With
// `causal` (the default, and the paper's) positions are encoded on the tree of
// prefixes (`tree`): the same numbers for a quarter of the work; under `dropout`
// positions share what is dropped of a prefix they share. How many prefixes there
// are depends on positions: on a GPU the host waits for two numbers of them, and two
// more of the samples, in each step, and a CUDA graph cannot capture one. Without
// `tree` nobody waits. `projection` is `single`, one for all layers (text), `multi`,
// one for each (image), or `none`: eq and ek are both the embedding. `deviation` is
// that of the normal distribution of initial weights, the paper's 0.02, whose models
// are 768 (text) and 384 wide (images). In a narrower one embeddings begin smaller,
// the rows that act in attention by the square of it, and their product, which is all
// that is felt of them, by the fourth power: times the root of the quotient of the
// widths it leaves them as large as the paper's.
// Defaults are those of the paper's text models; its image models have axes = 2,
// digits = 2, max_position = 100, form = mul, projection = multi,
// sampling = image and sets of 64. Their truncated normal, cut at 100 deviations, is the
// normal of here. With `outside` a token with a negative coordinate, the class token
// of an image that lies outside the grid, has a learned row in place of the encoder's.
//
// Two losses train the embeddings of positions that no text reaches, below
// max_position, drawn by sampler.py. `alpha` times: which of `candidates` positions
// is nearest to a pivot, for `pivots` of them, by the product of embeddings, in f32.
// `beta` times: in `windows` windows elsewhere the products among `offsets`
// positions, by head, follow those of the positions of the text that lie as the
// window's do, which learn nothing by it (not in steps whose positions are shifted).
// The paper's equation 10 is one-sided (`sided = 1`) and says nothing about the mean
// over rows (`reduction = rows`); the released code adds the other side (2) and
// divides by the number of all elements (`released`), which is `offsets` times
// smaller. With alpha = beta = 0 there are no losses and no samples. `sampling` is
// the paper's text, or what the released text or image code draws.
!matrix = tensor<?x?xf32>
!vector = tensor<?xf32>
!stack = tensor<?x?x?xf32>
!by_head = tensor<?x?x?x?xf32>
!integers = tensor<?xi64>
!table = tensor<?x?xi64>
!column = tensor<?x1xi64>
!positions = tensor<?x?xi32>
!sets = tensor<?x?x?xi32>
!conditions = tensor<?x?xi1>
!number = tensor<f32>
!integer = tensor<i64>
!of_rows = tensor<?x1xf32>
!encoder = (!table, i32, i32, i32, i32, i32, i1, i1, f32, !matrix, !matrix, !matrix, !vector, !matrix, !matrix, !stack,
  !matrix, !stack, !matrix, !matrix, !matrix, !stack, !matrix, !stack, !matrix, !vector, !vector, !matrix, !vector)
  -> !matrix

pos.encoding @seqpe attributes {
  formula = "bias: scale (q_i k_j + eq_i ek_j); mul: scale (q_i eq_i) (k_j ek_j); sum: scale (q_i + eq_i) (k_j + ek_j); by head, products of rows by lane",
  paper = "Li et al. 2025, SeqPE, section 3"
} {
  %form = pos.option "form" : i32 = "bias" of ["bias", "mul", "sum"]
  %option.base = pos.option "base" : i32 = 10 : i32 at_least 2 at_most 1024
  %option.digits = pos.option "digits" : i32 = 5 : i32 at_least 1 at_most 30
  %option.axes = pos.option "axes" : i32 = 1 : i32 at_least 1 at_most 8
  %option.width = pos.option "width" : i32 = 0 : i32 at_least 0
  %option.heads = pos.option "heads" : i32 = 0 : i32 at_least 0
  %option.blocks = pos.option "blocks" : i32 = 2 : i32 at_least 1 at_most 64
  %option.causal = pos.option "causal" : i1 = true
  %option.tree = pos.option "tree" : i1 = true
  %option.dropout = pos.option "dropout" : f32 = 0.1 : f32 at_least 0
  %option.deviation = pos.option "deviation" : f32 = 0.02 : f32 at_least 0
  %option.projection = pos.option "projection" : i32 = "single" of ["single", "multi", "none"]
  %option.outside = pos.option "outside" : i1 = false
  %option.max_position = pos.option "max_position" : i32 = 20000 : i32 at_least 2
  %option.alpha = pos.option "alpha" : f32 = 0.1 : f32 at_least 0
  %option.beta = pos.option "beta" : f32 = 0.1 : f32 at_least 0
  %option.pivots = pos.option "pivots" : i32 = 32 : i32 at_least 1
  %option.candidates = pos.option "candidates" : i32 = 32 : i32 at_least 2
  %option.windows = pos.option "windows" : i32 = 32 : i32 at_least 1
  %option.offsets = pos.option "offsets" : i32 = 32 : i32 at_least 2
  %option.sampling = pos.option "sampling" : i32 = "text" of ["paper", "text", "image"]
  %option.sided = pos.option "sided" : i32 = 1 : i32 at_least 1 at_most 2
  %option.reduction = pos.option "reduction" : i32 = "rows" of ["rows", "released"]
  %batch = pos.extent batch
  %query_heads = pos.extent heads
  %kv_heads = pos.extent kv_heads
  %queries = pos.extent query
  %keys = pos.extent key
  %dim = pos.extent head_dim
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %eq = pos.param "eq" : !by_head dims(%batch, %query_heads, %queries, %dim)
  %ek = pos.param "ek" : !by_head dims(%batch, %kv_heads, %keys, %dim)

  // Columns for `bias`, and maps of no lane; else none, and maps of all lanes. What
  // does not act reads nothing.
  %none = arith.constant 0.0 : f32
  %is_bias = arith.cmpi eq, %form, %zero : i32
  %multiplies = arith.cmpi eq, %form, %one : i32
  %columns = arith.select %is_bias, %dim, %zero : i32

  pos.columns %columns {
    %b = pos.batch
    %h = pos.head
    %t = pos.lane
    %i = pos.tensor_row query
    %j = pos.tensor_row key
    %a = pos.read %eq[%b, %h, %i, %t] : !by_head
    %e = pos.read %ek[%b, %h, %j, %t] : !by_head
    %x = arith.select %is_bias, %a, %none : f32
    %y = arith.select %is_bias, %e, %none : f32
    pos.yield %x, %y : f32, f32
  }

  pos.rows of [query] single lanes(%columns, %columns) {
  ^bb0(%x: f32):
    %b = pos.batch
    %h = pos.head
    %t = pos.lane
    %i = pos.tensor_row self
    %e = pos.read %eq[%b, %h, %i, %t] : !by_head
    %product = arith.mulf %x, %e : f32
    %sum = arith.addf %x, %e : f32
    %mapped = arith.select %multiplies, %product, %sum : f32
    %y = arith.select %is_bias, %x, %mapped : f32
    pos.yield %y : f32
  }
  pos.rows of [key] single lanes(%columns, %columns) {
  ^bb0(%x: f32):
    %b = pos.batch
    %h = pos.head
    %t = pos.lane
    %j = pos.tensor_row self
    %e = pos.read %ek[%b, %h, %j, %t] : !by_head
    %product = arith.mulf %x, %e : f32
    %sum = arith.addf %x, %e : f32
    %mapped = arith.select %multiplies, %product, %sum : f32
    %y = arith.select %is_bias, %x, %mapped : f32
    pos.yield %y : f32
  }

  // ---- the model's part: digits, their encoder, projections, losses ----------

  %c = pos.extent model
  %is_own_width = arith.cmpi sgt, %option.width, %zero : i32
  %ce = arith.select %is_own_width, %option.width, %c : i32
  %three = arith.constant 3 : i32
  %four = arith.constant 4 : i32
  %slots0 = arith.muli %option.axes, %option.digits : i32
  %qkv = arith.muli %three, %ce : i32
  %mlp = arith.muli %four, %ce : i32
  %query_rows = arith.muli %query_heads, %dim : i32
  %key_rows = arith.muli %kv_heads, %dim : i32
  %own_made = arith.addi %query_rows, %key_rows : i32
  %nil0 = arith.constant 0.0 : f32
  %one0 = arith.constant 1.0 : f32

  %param.token = pos.param "token" : !matrix dims(%option.base, %ce) init normal(%nil0, %option.deviation) scope model
  %param.place = pos.param "place" : !matrix dims(%slots0, %ce) init normal(%nil0, %option.deviation) scope model
  %param.axis = pos.param "axis" : !matrix dims(%option.axes, %ce) init normal(%nil0, %option.deviation) scope model
  %param.cls = pos.param "cls" : !vector dims(%ce) init normal(%nil0, %option.deviation) scope model
  %param.norm1_weight = pos.param "norm1_weight" : !matrix dims(%option.blocks, %ce) init constant(%one0) scope model
  %param.norm1_bias = pos.param "norm1_bias" : !matrix dims(%option.blocks, %ce) init constant(%nil0) scope model
  %param.qkv_weight = pos.param "qkv_weight" : !stack dims(%option.blocks, %qkv, %ce) init normal(%nil0, %option.deviation) scope model
  %param.qkv_bias = pos.param "qkv_bias" : !matrix dims(%option.blocks, %qkv) init constant(%nil0) scope model
  %param.output_weight = pos.param "output_weight" : !stack dims(%option.blocks, %ce, %ce) init normal(%nil0, %option.deviation) scope model
  %param.output_bias = pos.param "output_bias" : !matrix dims(%option.blocks, %ce) init constant(%nil0) scope model
  %param.norm2_weight = pos.param "norm2_weight" : !matrix dims(%option.blocks, %ce) init constant(%one0) scope model
  %param.norm2_bias = pos.param "norm2_bias" : !matrix dims(%option.blocks, %ce) init constant(%nil0) scope model
  %param.up_weight = pos.param "up_weight" : !stack dims(%option.blocks, %mlp, %ce) init normal(%nil0, %option.deviation) scope model
  %param.up_bias = pos.param "up_bias" : !matrix dims(%option.blocks, %mlp) init constant(%nil0) scope model
  %param.down_weight = pos.param "down_weight" : !stack dims(%option.blocks, %ce, %mlp) init normal(%nil0, %option.deviation) scope model
  %param.down_bias = pos.param "down_bias" : !matrix dims(%option.blocks, %ce) init constant(%nil0) scope model
  %param.norm_weight = pos.param "norm_weight" : !vector dims(%ce) init constant(%one0) scope model
  %param.norm_bias = pos.param "norm_bias" : !vector dims(%ce) init constant(%nil0) scope model
  %param.last_weight = pos.param "last_weight" : !matrix dims(%ce, %ce) init normal(%nil0, %option.deviation) scope model
  %param.last_bias = pos.param "last_bias" : !vector dims(%ce) init constant(%nil0) scope model
  %param.outside_row = pos.param "outside_row" : !vector dims(%ce) init normal(%nil0, %option.deviation) scope model
  %param.projection_weight = pos.param "projection_weight" : !matrix dims(%own_made, %ce) init normal(%nil0, %option.deviation) scope model
  %param.projection_bias = pos.param "projection_bias" : !vector dims(%own_made) init constant(%nil0) scope model
  %param.layer_projection_weight = pos.param "layer_projection_weight" : !matrix dims(%own_made, %ce) init normal(%nil0, %option.deviation)
  %param.layer_projection_bias = pos.param "layer_projection_bias" : !vector dims(%own_made) init constant(%nil0)

  // Positions of the losses are sampled below max_position, beside this file.
  %farthest = arith.subi %option.max_position, %one : i32
  %input.pivots = pos.input "pivots_at" : !positions dims(%option.pivots, %option.axes) range(%zero, %farthest)
  %input.candidates = pos.input "candidates_at" : !sets dims(%option.pivots, %option.candidates, %option.axes) range(%zero, %farthest)
  %input.trained = pos.input "trained_at" : !sets dims(%option.windows, %option.offsets, %option.axes) range(%zero, %farthest)
  %input.beyond = pos.input "beyond_at" : !sets dims(%option.windows, %option.offsets, %option.axes) range(%zero, %farthest)

  // ---- what a model calls -----------------------------------------------------------

  // Embeddings of the positions of a call, sample after sample, [positions, width].
  func.func @initial_state(%at: !sets {pos.role = "positions"}, %n_base: i32 {pos.role = "base"},
      %n_digits: i32 {pos.role = "digits"}, %n_axes: i32 {pos.role = "axes"}, %n_heads: i32 {pos.role = "heads"},
      %n_blocks: i32 {pos.role = "blocks"}, %is_causal: i1 {pos.role = "causal"}, %is_tree: i1 {pos.role = "tree"},
      %drop: f32 {pos.role = "dropout"}, %wt: !matrix {pos.role = "token"}, %wp: !matrix {pos.role = "place"},
      %wa: !matrix {pos.role = "axis"}, %wc: !vector {pos.role = "cls"}, %w1: !matrix {pos.role = "norm1_weight"},
      %b1: !matrix {pos.role = "norm1_bias"}, %wq: !stack {pos.role = "qkv_weight"},
      %bq: !matrix {pos.role = "qkv_bias"}, %wo: !stack {pos.role = "output_weight"},
      %bo: !matrix {pos.role = "output_bias"}, %w2: !matrix {pos.role = "norm2_weight"},
      %b2: !matrix {pos.role = "norm2_bias"}, %wu: !stack {pos.role = "up_weight"}, %bu: !matrix {pos.role = "up_bias"},
      %wd: !stack {pos.role = "down_weight"}, %bd: !matrix {pos.role = "down_bias"},
      %wn: !vector {pos.role = "norm_weight"}, %bn: !vector {pos.role = "norm_bias"},
      %wl: !matrix {pos.role = "last_weight"}, %bl: !vector {pos.role = "last_bias"},
      %is_outside: i1 {pos.role = "outside"}, %wx: !vector {pos.role = "outside_row"})
      -> (!matrix {pos.role = "embedding"}) {
    %nil = arith.constant dense<0> : !integer
    %c2 = arith.constant 2 : index
    %coordinates = tensor.dim %at, %c2 : !sets
    %coordinates32 = arith.index_cast %coordinates : index to i32
    pos.require %coordinates32 at_least %n_axes, "positions of this model have fewer coordinates than the option axes"
    pos.require %coordinates32 at_most %n_axes, "positions of this model have more coordinates than the option axes"
    %p32 = func.call @listed(%at) : (!sets) -> !positions
    %own = nn.cast %p32 : !positions -> !table
    %p = scf.if %is_outside -> !table {
      %inside = nn.maximum %own, %nil : (!table, !integer) -> !table
      scf.yield %inside : !table
    } else {
      scf.yield %own : !table
    }
    %e = func.call @encode(%p, %n_base, %n_digits, %n_axes, %n_heads, %n_blocks, %is_causal, %is_tree, %drop, %wt,
        %wp, %wa, %wc, %w1, %b1, %wq, %bq, %wo, %bo, %w2, %b2, %wu, %bu, %wd, %bd, %wn, %bn, %wl, %bl) : !encoder
    %y = scf.if %is_outside -> !matrix {
      %beyond = func.call @is_outside(%own) : (!table) -> tensor<?x1xi1>
      %chosen = nn.select %beyond, %wx, %e : (tensor<?x1xi1>, !vector, !matrix) -> !matrix
      scf.yield %chosen : !matrix
    } else {
      scf.yield %e : !matrix
    }
    return %y : !matrix
  }

  // Which positions have a negative coordinate.
  func.func private @is_outside(%p: !table) -> tensor<?x1xi1> {
    %nil = arith.constant dense<0> : !integer
    %nothing = arith.constant dense<0.0> : !number
    %low = nn.minimum %p, %nil : (!table, !integer) -> !table
    %lowf = nn.cast %low : !table -> !matrix
    %sum = nn.sum %lowf over [1] keep : (!matrix) -> !of_rows
    %any = nn.less %sum, %nothing : (!of_rows, !number) -> tensor<?x1xi1>
    return %any : tensor<?x1xi1>
  }

  func.func @produce(%at: !sets {pos.role = "positions"}, %e: !matrix {pos.role = "embedding"},
      %kind: i32 {pos.role = "projection"}, %w: !matrix {pos.role = "projection_weight"},
      %b: !vector {pos.role = "projection_bias"}, %lw: !matrix {pos.role = "layer_projection_weight"},
      %lb: !vector {pos.role = "layer_projection_bias"}) -> (!by_head {pos.role = "eq"}, !by_head {pos.role = "ek"}) {
    %k0 = arith.constant 0 : i32
    %k1 = arith.constant 1 : i32
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %h32 = pos.extent heads
    %g32 = pos.extent kv_heads
    %d32 = pos.extent head_dim
    %h = arith.index_cast %h32 : i32 to index
    %g = arith.index_cast %g32 : i32 to index
    %d = arith.index_cast %d32 : i32 to index
    %hd = arith.muli %h, %d : index
    %gd = arith.muli %g, %d : index
    %is_single = arith.cmpi eq, %kind, %k0 : i32
    %is_multi = arith.cmpi eq, %kind, %k1 : i32
    %is_projected = arith.ori %is_single, %is_multi : i1
    %q, %k = scf.if %is_projected -> (!matrix, !matrix) {
      %y = scf.if %is_single -> !matrix {
        %z = nn.linear %e, %w bias %b : (!matrix, !matrix, !vector) -> !matrix
        scf.yield %z : !matrix
      } else {
        %z = nn.linear %e, %lw bias %lb : (!matrix, !matrix, !vector) -> !matrix
        scf.yield %z : !matrix
      }
      %yq = nn.slice %y dim 1 start %c0 length %hd : (!matrix, index, index) -> !matrix
      %yk = nn.slice %y dim 1 start %hd length %gd : (!matrix, index, index) -> !matrix
      scf.yield %yq, %yk : !matrix, !matrix
    } else {
      // Without a projection the embedding is the rows of all heads.
      %width = tensor.dim %e, %c1 : !matrix
      %lanes = arith.index_cast %width : index to i32
      %own_lanes = arith.muli %h32, %d32 : i32
      %key_lanes = arith.muli %g32, %d32 : i32
      %fewest = arith.minsi %own_lanes, %key_lanes : i32
      %most = arith.maxsi %own_lanes, %key_lanes : i32
      pos.require %lanes at_least %most, "projection = none: the encoder's width is that of all heads"
      pos.require %lanes at_most %fewest, "projection = none: the encoder's width is that of all heads"
      scf.yield %e, %e : !matrix, !matrix
    }
    %batches = tensor.dim %at, %c0 : !sets
    %length = tensor.dim %at, %c1 : !sets
    %q4 = nn.reshape %q sizes(%batches, %length, %h, %d) : !matrix -> !by_head
    %k4 = nn.reshape %k sizes(%batches, %length, %g, %d) : !matrix -> !by_head
    %of_queries = nn.transpose %q4 1, 2 : (!by_head) -> !by_head
    %of_keys = nn.transpose %k4 1, 2 : (!by_head) -> !by_head
    return %of_queries, %of_keys : !by_head, !by_head
  }

  func.func @auxiliary_loss(%at: !sets {pos.role = "positions"}, %e: !matrix {pos.role = "embedding"},
      %contrast_weight: f32 {pos.role = "alpha"}, %distil_weight: f32 {pos.role = "beta"},
      %pivots: !positions {pos.role = "pivots_at"}, %candidates: !sets {pos.role = "candidates_at"},
      %trained: !sets {pos.role = "trained_at"}, %beyond: !sets {pos.role = "beyond_at"},
      %sides: i32 {pos.role = "sided"}, %mean_over: i32 {pos.role = "reduction"}, %n_base: i32 {pos.role = "base"},
      %n_digits: i32 {pos.role = "digits"}, %n_axes: i32 {pos.role = "axes"}, %n_heads: i32 {pos.role = "heads"},
      %n_blocks: i32 {pos.role = "blocks"}, %is_causal: i1 {pos.role = "causal"}, %is_tree: i1 {pos.role = "tree"},
      %drop: f32 {pos.role = "dropout"}, %wt: !matrix {pos.role = "token"}, %wp: !matrix {pos.role = "place"},
      %wa: !matrix {pos.role = "axis"}, %wc: !vector {pos.role = "cls"}, %w1: !matrix {pos.role = "norm1_weight"},
      %b1: !matrix {pos.role = "norm1_bias"}, %wq: !stack {pos.role = "qkv_weight"},
      %bq: !matrix {pos.role = "qkv_bias"}, %wo: !stack {pos.role = "output_weight"},
      %bo: !matrix {pos.role = "output_bias"}, %w2: !matrix {pos.role = "norm2_weight"},
      %b2: !matrix {pos.role = "norm2_bias"}, %wu: !stack {pos.role = "up_weight"}, %bu: !matrix {pos.role = "up_bias"},
      %wd: !stack {pos.role = "down_weight"}, %bd: !matrix {pos.role = "down_bias"},
      %wn: !vector {pos.role = "norm_weight"}, %bn: !vector {pos.role = "norm_bias"},
      %wl: !matrix {pos.role = "last_weight"}, %bl: !vector {pos.role = "last_bias"}) -> !number {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %off = arith.constant 0.0 : f32
    %nothing = arith.constant dense<0.0> : !number
    %width = tensor.dim %e, %c1 : !matrix
    %contrasts = arith.cmpf one, %contrast_weight, %off : f32
    %distils = arith.cmpf one, %distil_weight, %off : f32
    // Positions of both losses are encoded together.
    %positions, %near_count = scf.if %contrasts -> (!positions, index) {
      %listed = func.call @listed(%candidates) : (!sets) -> !positions
      %near = nn.concat %pivots, %listed dim 0 : (!positions, !positions) -> !positions
      %all = scf.if %distils -> !positions {
        %far = func.call @listed(%beyond) : (!sets) -> !positions
        %both = nn.concat %near, %far dim 0 : (!positions, !positions) -> !positions
        scf.yield %both : !positions
      } else {
        scf.yield %near : !positions
      }
      %count = tensor.dim %near, %c0 : !positions
      scf.yield %all, %count : !positions, index
    } else {
      %far = func.call @listed(%beyond) : (!sets) -> !positions
      scf.yield %far, %c0 : !positions, index
    }
    %trains = arith.ori %contrasts, %distils : i1
    %x = scf.if %trains -> !matrix {
      %p = nn.cast %positions : !positions -> !table
      %made = func.call @encode(%p, %n_base, %n_digits, %n_axes, %n_heads, %n_blocks, %is_causal, %is_tree, %drop, %wt,
          %wp, %wa, %wc, %w1, %b1, %wq, %bq, %wo, %bo, %w2, %b2, %wu, %bu, %wd, %bd, %wn, %bn, %wl, %bl) : !encoder
      scf.yield %made : !matrix
    } else {
      scf.yield %e : !matrix
    }
    %first = scf.if %contrasts -> !number {
      %s = tensor.dim %candidates, %c0 : !sets
      %m = tensor.dim %candidates, %c1 : !sets
      %sm = arith.muli %s, %m : index
      %pivot = nn.slice %x dim 0 start %c0 length %s : (!matrix, index, index) -> !matrix
      %flat = nn.slice %x dim 0 start %s length %sm : (!matrix, index, index) -> !matrix
      %rows = nn.reshape %flat sizes(%s, %m, %width) : !matrix -> !stack
      %loss = func.call @contrast(%pivot, %rows, %pivots, %candidates) : (!matrix, !stack, !positions, !sets) -> !number
      %weight = tensor.from_elements %contrast_weight : !number
      %weighted = nn.mul %loss, %weight : (!number, !number) -> !number
      scf.yield %weighted : !number
    } else {
      scf.yield %nothing : !number
    }
    %second = scf.if %distils -> !number {
      %sets = tensor.dim %beyond, %c0 : !sets
      %m = tensor.dim %beyond, %c1 : !sets
      %far_count = arith.muli %sets, %m : index
      %student = nn.slice %x dim 0 start %near_count length %far_count : (!matrix, index, index) -> !matrix
      %t32 = func.call @listed(%trained) : (!sets) -> !positions
      %teacher = func.call @rows_of_text(%at, %e, %t32, %n_base, %n_digits) : (!sets, !matrix, !positions, i32, i32)
          -> !matrix
      %h = func.call @head_count(%n_heads, %width) : (i32, index) -> i32
      %t = func.call @relations(%teacher, %sets, %m, %h) : (!matrix, index, index, i32) -> !matrix
      %s = func.call @relations(%student, %sets, %m, %h) : (!matrix, index, index, i32) -> !matrix
      %there = func.call @divergence(%t, %s) : (!matrix, !matrix) -> !number
      %c1_32 = arith.constant 1 : i32
      %is_two = arith.cmpi sgt, %sides, %c1_32 : i32
      %total = scf.if %is_two -> !number {
        %back = func.call @divergence(%s, %t) : (!matrix, !matrix) -> !number
        %sum = nn.add %there, %back : (!number, !number) -> !number
        scf.yield %sum : !number
      } else {
        scf.yield %there : !number
      }
      %row_count = tensor.dim %t, %c0 : !matrix
      %is_released = arith.cmpi eq, %mean_over, %c1_32 : i32
      %in_each = arith.select %is_released, %m, %c1 : index
      %summed = arith.muli %row_count, %in_each : index
      %divisor = nn.scalar %summed : !number
      %mean_loss = nn.div %total, %divisor : (!number, !number) -> !number
      %weight = tensor.from_elements %distil_weight : !number
      %weighted = nn.mul %mean_loss, %weight : (!number, !number) -> !number
      %shown = func.call @unless_shifted(%at) : (!sets) -> !number
      %counted = nn.mul %weighted, %shown : (!number, !number) -> !number
      scf.yield %counted : !number
    } else {
      scf.yield %nothing : !number
    }
    %loss = nn.add %first, %second : (!number, !number) -> !number
    return %loss : !number
  }

  // 1 where the positions of every sample are those from 0 on, of a text or of a grid that
  // a class token may lead, else 0. The last one says how many those are.
  func.func private @unless_shifted(%at: !sets) -> !number {
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %unit = arith.constant dense<1> : !integer
    %length = tensor.dim %at, %c1 : !sets
    %axes = tensor.dim %at, %c2 : !sets
    %end = nn.slice %at dim 1 start -1 length 1 : (!sets) -> tensor<?x1x?xi32>
    %end64 = nn.cast %end : tensor<?x1x?xi32> -> tensor<?x1x?xi64>
    %sides = nn.add %end64, %unit : (tensor<?x1x?xi64>, !integer) -> tensor<?x1x?xi64>
    %first = nn.slice %sides dim 2 start 0 length 1 : (tensor<?x1x?xi64>) -> tensor<?x1x1xi64>
    %count = scf.for %a = %c1 to %axes step %c1 iter_args(%before = %first) -> (tensor<?x1x1xi64>) {
      %side = nn.slice %sides dim 2 start %a length 1 : (tensor<?x1x?xi64>, index) -> tensor<?x1x1xi64>
      %cells = nn.mul %before, %side : (tensor<?x1x1xi64>, tensor<?x1x1xi64>) -> tensor<?x1x1xi64>
      scf.yield %cells : tensor<?x1x1xi64>
    }
    %tokens = nn.scalar %length : !integer
    %each = nn.at_most %count, %tokens : (tensor<?x1x1xi64>, !integer) -> tensor<?x1x1xi1>
    %every = nn.all %each : (tensor<?x1x1xi1>) -> tensor<i1>
    %x = nn.cast %every : tensor<i1> -> !number
    return %x : !number
  }

  // The embeddings of positions [n, axes] of the text, whose positions rise: they are
  // found among those of the first sample. They learn nothing by it.
  func.func private @rows_of_text(%at: !sets, %e: !matrix, %wanted: !positions, %n_base: i32, %n_digits: i32)
      -> !matrix {
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %length = tensor.dim %at, %c1 : !sets
    %axes = tensor.dim %at, %c2 : !sets
    %single = nn.slice %at dim 0 start 0 length 1 : (!sets) -> tensor<1x?x?xi32>
    %flat = nn.reshape %single sizes(%length, %axes) : tensor<1x?x?xi32> -> !positions
    %text = nn.cast %flat : !positions -> !table
    %some = nn.cast %wanted : !positions -> !table
    %nil = arith.constant dense<0> : !integer
    %inside = nn.maximum %text, %nil : (!table, !integer) -> !table
    %from_0 = func.call @number(%inside, %n_base, %n_digits) : (!table, i32, i32) -> !integers
    %beyond = func.call @is_outside(%text) : (!table) -> tensor<?x1xi1>
    %before_0 = nn.cast %beyond : tensor<?x1xi1> -> !column
    %lower = nn.reshape %before_0 sizes(%length) : !column -> !integers
    %n = nn.sub %from_0, %lower : (!integers, !integers) -> !integers
    %w = func.call @number(%some, %n_base, %n_digits) : (!table, i32, i32) -> !integers
    %found = nn.search %w in %n : (!integers, !integers) -> !integers
    // A shifted step, whose loss does not count, does not have them.
    %end = nn.scalar %length : !integer
    %known = nn.remainder %found, %end : (!integers, !integer) -> !integers
    %rows = nn.index_select %e, %known dim 0 : (!matrix, !integers) -> !matrix
    %fixed = nn.stop_gradient %rows : (!matrix) -> !matrix
    return %fixed : !matrix
  }

  // ---- the encoder ----------------------------------------------------------------

  // Embeddings [P, width] of positions [P, axes]. Rows of the network are prefixes
  // of positions ("nodes"), then one CLS for each end; a row sees those on its path
  // [slots + 1]. What enters is one row per slot and digit, and CLS; of the last
  // block only the rows of CLS are made.
  func.func private @encode(%p: !table, %n_base: i32, %n_digits: i32, %n_axes: i32, %n_heads: i32, %n_blocks: i32,
                            %is_causal: i1, %is_tree: i1, %drop: f32, %wt: !matrix, %wp: !matrix, %wa: !matrix,
                            %wc: !vector, %w1: !matrix, %b1: !matrix, %wq: !stack, %bq: !matrix, %wo: !stack,
                            %bo: !matrix, %w2: !matrix, %b2: !matrix, %wu: !stack, %bu: !matrix, %wd: !stack,
                            %bd: !matrix, %wn: !vector, %bn: !vector, %wl: !matrix, %bl: !vector) -> !matrix {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %width = tensor.dim %wc, %c0 : !vector
    %n = func.call @number(%p, %n_base, %n_digits) : (!table, i32, i32) -> !integers
    %s32 = arith.muli %n_axes, %n_digits : i32
    %shares = arith.andi %is_causal, %is_tree : i1
    %entry, %node_paths, %node_seen, %end_paths, %end_of = scf.if %shares
        -> (!integers, !table, !conditions, !table, !integers) {
      %t:5 = func.call @tree(%n, %n_base, %s32) : (!integers, i32, i32)
          -> (!integers, !table, !conditions, !table, !integers)
      scf.yield %t#0, %t#1, %t#2, %t#3, %t#4 : !integers, !table, !conditions, !table, !integers
    } else {
      %t:5 = func.call @apart(%n, %n_base, %s32, %is_causal) : (!integers, i32, i32, i1)
          -> (!integers, !table, !conditions, !table, !integers)
      scf.yield %t#0, %t#1, %t#2, %t#3, %t#4 : !integers, !table, !conditions, !table, !integers
    }
    %end_seen = nn.equal %end_paths, %end_paths : (!table, !table) -> !conditions
    %paths = nn.concat %node_paths, %end_paths dim 0 : (!table, !table) -> !table
    %seen = nn.concat %node_seen, %end_seen dim 0 : (!conditions, !conditions) -> !conditions
    %node_count = tensor.dim %node_paths, %c0 : !table
    %end_count = tensor.dim %end_paths, %c0 : !table
    %row_count = arith.addi %node_count, %end_count : index
    %row = nn.iota length %row_count : !integers
    %end_row = nn.slice %row dim 0 start %node_count length %end_count : (!integers, index, index) -> !integers

    %s = arith.index_cast %s32 : i32 to index
    %digits = arith.index_cast %n_base : i32 to index
    %pairs = arith.muli %s, %digits : index
    %slot_rows = func.call @slot_rows(%wp, %wa, %n_axes, %n_digits) : (!matrix, !matrix, i32, i32) -> !matrix
    %of_slot = nn.reshape %slot_rows sizes(%s, %width) : !matrix -> tensor<?x1x?xf32>
    %of_digit = nn.reshape %wt sizes(%digits, %width) : !matrix -> tensor<1x?x?xf32>
    %sums = nn.add %of_slot, %of_digit : (tensor<?x1x?xf32>, tensor<1x?x?xf32>) -> !stack
    %entries = nn.reshape %sums sizes(%pairs, %width) : !stack -> !matrix
    %cls_row = nn.reshape %wc sizes(%width) : !vector -> tensor<1x?xf32>
    %start = nn.concat %entries, %cls_row dim 0 : (!matrix, tensor<1x?xf32>) -> !matrix

    %heads = func.call @head_count(%n_heads, %width) : (i32, index) -> i32
    %blocks = arith.index_cast %n_blocks : i32 to index
    %last = arith.subi %blocks, %c1 : index
    %out, %rest = scf.for %i = %c0 to %blocks step %c1 iter_args(%x = %start, %at = %entry) -> (!matrix, !integers) {
      %is_last = arith.cmpi eq, %i, %last : index
      %own, %path, %visible = scf.if %is_last -> (!integers, !table, !conditions) {
        scf.yield %end_row, %end_paths, %end_seen : !integers, !table, !conditions
      } else {
        scf.yield %row, %paths, %seen : !integers, !table, !conditions
      }
      %y = func.call @attend(%x, %at, %own, %path, %visible, %i, %heads, %drop, %w1, %b1, %wq, %bq, %wo, %bo)
        : (!matrix, !integers, !integers, !table, !conditions, index, i32, f32, !matrix, !matrix, !stack, !matrix,
           !stack, !matrix) -> !matrix
      %more = func.call @mlp(%y, %i, %drop, %w2, %b2, %wu, %bu, %wd, %bd)
        : (!matrix, index, f32, !matrix, !matrix, !stack, !matrix, !stack, !matrix) -> !matrix
      %z = nn.add %y, %more : (!matrix, !matrix) -> !matrix
      scf.yield %z, %row : !matrix, !integers
    }
    %normed, %mean, %rstd = nn.layer_norm %out, %wn, %bn epsilon 1.0e-05
      : (!matrix, !vector, !vector) -> (!matrix, !of_rows, !of_rows)
    %ends = nn.linear %normed, %wl bias %bl : (!matrix, !matrix, !vector) -> !matrix
    %e = nn.index_select %ends, %end_of dim 0 : (!matrix, !integers) -> !matrix
    return %e : !matrix
  }

  // Heads of the encoder: as the option says, or one per 64 lanes.
  func.func private @head_count(%n: i32, %width: index) -> i32 {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c64 = arith.constant 64 : i32
    %w = arith.index_cast %width : index to i32
    %share = arith.divsi %w, %c64 : i32
    %least = arith.maxsi %share, %c1 : i32
    %given = arith.cmpi sgt, %n, %c0 : i32
    %h = arith.select %given, %n, %least : i32
    %rest = arith.remsi %w, %h : i32
    pos.require %rest at_most %c0, "heads divide the encoder's width: lanes that are left over"
    return %h : i32
  }

  // What is added to a digit's row for its slot, [slots, width].
  func.func private @slot_rows(%place: !matrix, %axis: !matrix, %n_axes: i32, %n_digits: i32) -> !matrix {
    %c1 = arith.constant 1 : i32
    %several = arith.cmpi sgt, %n_axes, %c1 : i32
    %rows = scf.if %several -> !matrix {
      %s32 = arith.muli %n_axes, %n_digits : i32
      %s = arith.index_cast %s32 : i32 to index
      %slot = nn.iota length %s : !integers
      %k = func.call @integer(%n_digits) : (i32) -> !integer
      %which = nn.floor_divide %slot, %k : (!integers, !integer) -> !integers
      %of_axis = nn.index_select %axis, %which dim 0 : (!matrix, !integers) -> !matrix
      %sum = nn.add %place, %of_axis : (!matrix, !matrix) -> !matrix
      scf.yield %sum : !matrix
    } else {
      scf.yield %place : !matrix
    }
    return %rows : !matrix
  }

  // ---- digits, and who sees whom -----------------------------------------------------

  // Coordinates [P, axes] as one number each, [P]: the digits of all coordinates
  // in a row, those of the first coordinate first.
  func.func private @number(%p: !table, %n_base: i32, %n_digits: i32) -> !integers {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %count = tensor.dim %p, %c0 : !table
    %axes = tensor.dim %p, %c1 : !table
    // Codes of the tree, below slots * base^slots, are numbers of 64 bits.
    %axes32 = arith.index_cast %axes : index to i32
    %slots32 = arith.muli %axes32, %n_digits : i32
    %slots_f = arith.sitofp %slots32 : i32 to f32
    %base_f = arith.sitofp %n_base : i32 to f32
    %bits_each = math.log2 %base_f : f32
    %bits_all = arith.mulf %slots_f, %bits_each : f32
    %bits = arith.fptosi %bits_all : f32 to i32
    %bits_most = arith.constant 54 : i32
    pos.require %bits at_most %bits_most, "a position's digits are more than a number holds, in bits"
    %b = func.call @integer(%n_base) : (i32) -> !integer
    %k = func.call @integer(%n_digits) : (i32) -> !integer
    %size = nn.power %b, %k : (!integer, !integer) -> !integer
    %nil = arith.constant dense<0> : !integer
    %positive = nn.at_most %nil, %p : (!integer, !table) -> !conditions
    %all_positive = nn.all %positive : (!conditions) -> tensor<i1>
    %q = nn.require %all_positive, %p, "a position is negative, which no sequence of digits is" : (tensor<i1>, !table) -> !table
    %short = nn.less %q, %size : (!table, !integer) -> !conditions
    %all_short = nn.all %short : (!conditions) -> tensor<i1>
    %at = nn.require %all_short, %q, "a position has more digits than the option digits says" : (tensor<i1>, !table) -> !table
    %column = nn.slice %at dim 1 start 0 length 1 : (!table) -> !column
    %first = nn.reshape %column sizes(%count) : !column -> !integers
    %n = scf.for %a = %c1 to %axes step %c1 iter_args(%before = %first) -> (!integers) {
      %next = nn.slice %at dim 1 start %a length 1 : (!table, index) -> !column
      %coordinate = nn.reshape %next sizes(%count) : !column -> !integers
      %moved = nn.mul %before, %size : (!integers, !integer) -> !integers
      %both = nn.add %moved, %coordinate : (!integers, !integers) -> !integers
      scf.yield %both : !integers
    }
    return %n : !integers
  }

  func.func private @integer(%n: i32) -> !integer {
    %long = arith.extsi %n : i32 to i64
    %t = tensor.from_elements %long : !integer
    return %t : !integer
  }

  func.func private @to_column(%x: !integers) -> !column {
    %c0 = arith.constant 0 : index
    %n = tensor.dim %x, %c0 : !integers
    %y = nn.reshape %x sizes(%n) : !integers -> !column
    return %y : !column
  }

  // The prefixes [P, slots] of numbers [P], as numbers: n / base^(slots - 1 - slot).
  func.func private @prefixes(%n: !integers, %n_base: i32, %n_slots: i32) -> !table {
    %c1 = arith.constant 1 : i32
    %count = arith.index_cast %n_slots : i32 to index
    %last = arith.subi %n_slots, %c1 : i32
    %l = func.call @integer(%last) : (i32) -> !integer
    %b = func.call @integer(%n_base) : (i32) -> !integer
    %i = nn.iota length %count : !integers
    %behind = nn.sub %l, %i : (!integer, !integers) -> !integers
    %weights = nn.power %b, %behind : (!integer, !integers) -> !integers
    %column = func.call @to_column(%n) : (!integers) -> !column
    %y = nn.floor_divide %column, %weights : (!column, !integers) -> !table
    return %y : !table
  }

  // With a causal mask what a slot holds depends on the digits up to it alone, so
  // that positions share it: 572 nodes in place of 2560 for 512 positions of five
  // digits. A node's code is slot * base^slots + the prefix as a number. Gives the
  // entries of all rows, paths of nodes and what they see there, paths of ends, and
  // each position's end. Under dropout positions share what is dropped of a prefix.
  func.func private @tree(%n: !integers, %n_base: i32, %n_slots: i32)
      -> (!integers, !table, !conditions, !table, !integers) {
    %c0 = arith.constant 0 : index
    %nil = arith.constant dense<0> : !integer
    %s = arith.index_cast %n_slots : i32 to index
    %b = func.call @integer(%n_base) : (i32) -> !integer
    %slots64 = func.call @integer(%n_slots) : (i32) -> !integer
    %size = nn.power %b, %slots64 : (!integer, !integer) -> !integer
    %slot = nn.iota length %s : !integers
    %codes_from = nn.mul %slot, %size : (!integers, !integer) -> !integers
    %ends, %end_of, %times = nn.unique %n : (!integers) -> (!integers, !integers, !integers)
    %above = func.call @prefixes(%ends, %n_base, %n_slots) : (!integers, i32, i32) -> !table
    %codes = nn.add %above, %codes_from : (!table, !integers) -> !table
    %nodes, %end_nodes, %shared = nn.unique %codes : (!table) -> (!integers, !table, !integers)
    %node_count = tensor.dim %nodes, %c0 : !integers
    %end_count = tensor.dim %ends, %c0 : !integers
    %row_count = arith.addi %node_count, %end_count : index
    %row = nn.iota length %row_count : !integers
    %rows = func.call @to_column(%row) : (!integers) -> !column
    %node_row = nn.slice %rows dim 0 start %c0 length %node_count : (!column, index, index) -> !column
    %end_row = nn.slice %rows dim 0 start %node_count length %end_count : (!column, index, index) -> !column

    // Nodes above a node, by slot; slots behind its own are hidden.
    %level = nn.floor_divide %nodes, %size : (!integers, !integer) -> !integers
    %prefix = nn.remainder %nodes, %size : (!integers, !integer) -> !integers
    %levels = func.call @to_column(%level) : (!integers) -> !column
    %prefix_column = func.call @to_column(%prefix) : (!integers) -> !column
    %rise = nn.sub %levels, %slot : (!column, !integers) -> !table
    %up = nn.maximum %rise, %nil : (!table, !integer) -> !table
    %shorter_by = nn.power %b, %up : (!integer, !table) -> !table
    %shorter = nn.floor_divide %prefix_column, %shorter_by : (!column, !table) -> !table
    %wanted = nn.add %shorter, %codes_from : (!table, !integers) -> !table
    %found = nn.search %wanted in %nodes : (!table, !integers) -> !table
    %seen = nn.at_most %slot, %levels : (!integers, !column) -> !conditions
    %upward = nn.select %seen, %found, %node_row : (!conditions, !table, !column) -> !table
    %node_paths = nn.concat %upward, %node_row dim 1 : (!table, !column) -> !table
    %never = nn.less %node_row, %node_row : (!column, !column) -> tensor<?x1xi1>
    %node_seen = nn.concat %seen, %never dim 1 : (!conditions, tensor<?x1xi1>) -> !conditions
    %end_paths = nn.concat %end_nodes, %end_row dim 1 : (!table, !column) -> !table
    %entry = func.call @entries(%level, %prefix, %ends, %n_base, %n_slots)
      : (!integers, !integers, !integers, i32, i32) -> !integers
    return %entry, %node_paths, %node_seen, %end_paths, %end_of : !integers, !table, !conditions, !table, !integers
  }

  // Rows that enter for nodes, by slot and prefix, and for ends: slot * base + digit,
  // and CLS behind them.
  func.func private @entries(%slot: !integers, %prefix: !integers, %ends: !integers, %n_base: i32, %n_slots: i32)
      -> !integers {
    %b = func.call @integer(%n_base) : (i32) -> !integer
    %digit = nn.remainder %prefix, %b : (!integers, !integer) -> !integers
    %from = nn.mul %slot, %b : (!integers, !integer) -> !integers
    %of_nodes = nn.add %from, %digit : (!integers, !integers) -> !integers
    %pairs = arith.muli %n_slots, %n_base : i32
    %cls = func.call @integer(%pairs) : (i32) -> !integer
    %of_ends = nn.broadcast %cls, %ends : (!integer, !integers) -> !integers
    %entry = nn.concat %of_nodes, %of_ends dim 0 : (!integers, !integers) -> !integers
    return %entry : !integers
  }

  // The same where each position has nodes of its own.
  func.func private @apart(%n: !integers, %n_base: i32, %n_slots: i32, %is_causal: i1)
      -> (!integers, !table, !conditions, !table, !integers) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %s = arith.index_cast %n_slots : i32 to index
    %s1 = arith.addi %s, %c1 : index
    %count = tensor.dim %n, %c0 : !integers
    %node_count = arith.muli %count, %s : index
    %slots64 = func.call @integer(%n_slots) : (i32) -> !integer
    %slot = nn.iota length %s : !integers
    %place = nn.iota length %s1 : !integers
    %end_of = nn.iota length %count : !integers
    %position = func.call @to_column(%end_of) : (!integers) -> !column
    %from = nn.mul %position, %slots64 : (!column, !integer) -> !column
    %nodes = nn.add %from, %slot : (!column, !integers) -> !table
    %behind = nn.scalar %node_count : !integer
    %end_row = nn.add %position, %behind : (!column, !integer) -> !column
    %end_paths = nn.concat %nodes, %end_row dim 1 : (!table, !column) -> !table
    %by_position = nn.reshape %end_paths sizes(%count, %s1) : !table -> tensor<?x1x?xi64>
    %slots = func.call @to_column(%slot) : (!integers) -> !column
    %nothing = nn.sub %slots, %slots : (!column, !column) -> !column
    %repeated = nn.add %by_position, %nothing : (tensor<?x1x?xi64>, !column) -> tensor<?x?x?xi64>
    %node_paths = nn.reshape %repeated sizes(%node_count, %s1) : tensor<?x?x?xi64> -> !table
    %furthest = scf.if %is_causal -> !column {
      scf.yield %slots : !column
    } else {
      %all = nn.add %nothing, %slots64 : (!column, !integer) -> !column
      scf.yield %all : !column
    }
    %seen = nn.at_most %place, %furthest : (!integers, !column) -> !conditions
    %spread = nn.broadcast %seen, %repeated : (!conditions, tensor<?x?x?xi64>) -> tensor<?x?x?xi1>
    %node_seen = nn.reshape %spread sizes(%node_count, %s1) : tensor<?x?x?xi1> -> !conditions
    %prefix = func.call @prefixes(%n, %n_base, %n_slots) : (!integers, i32, i32) -> !table
    %prefix_flat = nn.reshape %prefix sizes(%node_count) : !table -> !integers
    %slot_of = nn.remainder %nodes, %slots64 : (!table, !integer) -> !table
    %slot_flat = nn.reshape %slot_of sizes(%node_count) : !table -> !integers
    %entry = func.call @entries(%slot_flat, %prefix_flat, %n, %n_base, %n_slots)
      : (!integers, !integers, !integers, i32, i32) -> !integers
    return %entry, %node_paths, %node_seen, %end_paths, %end_of : !integers, !table, !conditions, !table, !integers
  }

  // ---- parts of a block ------------------------------------------------------------

  func.func private @matrix(%stack: !stack, %i: index) -> !matrix {
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %m = tensor.dim %stack, %c1 : !stack
    %n = tensor.dim %stack, %c2 : !stack
    %part = nn.slice %stack dim 0 start %i length 1 : (!stack, index) -> tensor<1x?x?xf32>
    %w = nn.reshape %part sizes(%m, %n) : tensor<1x?x?xf32> -> !matrix
    return %w : !matrix
  }
  func.func private @vector(%stack: !matrix, %i: index) -> !vector {
    %c1 = arith.constant 1 : index
    %n = tensor.dim %stack, %c1 : !matrix
    %part = nn.slice %stack dim 0 start %i length 1 : (!matrix, index) -> tensor<1x?xf32>
    %v = nn.reshape %part sizes(%n) : tensor<1x?xf32> -> !vector
    return %v : !vector
  }

  // What the MLP of block i adds to rows [rows, width].
  func.func private @mlp(%x: !matrix, %i: index, %drop: f32, %w2: !matrix, %b2: !matrix, %wu: !stack, %bu: !matrix,
                         %wd: !stack, %bd: !matrix) -> !matrix {
    %nw = func.call @vector(%w2, %i) : (!matrix, index) -> !vector
    %nb = func.call @vector(%b2, %i) : (!matrix, index) -> !vector
    %uw = func.call @matrix(%wu, %i) : (!stack, index) -> !matrix
    %ub = func.call @vector(%bu, %i) : (!matrix, index) -> !vector
    %dw = func.call @matrix(%wd, %i) : (!stack, index) -> !matrix
    %db = func.call @vector(%bd, %i) : (!matrix, index) -> !vector
    %n, %mean, %rstd = nn.layer_norm %x, %nw, %nb epsilon 1.0e-05
      : (!matrix, !vector, !vector) -> (!matrix, !of_rows, !of_rows)
    %u = nn.linear %n, %uw bias %ub : (!matrix, !matrix, !vector) -> !matrix
    %g = nn.gelu %u form tanh : (!matrix) -> !matrix
    %d = nn.linear %g, %dw bias %db : (!matrix, !matrix, !vector) -> !matrix
    %y = pos.dropout %d probability %drop : !matrix
    return %y : !matrix
  }

  // Rows `own` after attention of block i over their paths; `at` is where the rows
  // of the network stand in x.
  func.func private @attend(%x: !matrix, %at: !integers, %own: !integers, %path: !table, %visible: !conditions,
                            %i: index, %n_heads: i32, %drop: f32, %w1: !matrix, %b1: !matrix, %wq: !stack,
                            %bq: !matrix, %wo: !stack, %bo: !matrix) -> !matrix {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %minus_infinity = arith.constant dense<0xFF800000> : !number
    %width = tensor.dim %x, %c1 : !matrix
    %h = arith.index_cast %n_heads : i32 to index
    %e = arith.divsi %width, %h : index
    %twice = arith.muli %width, %c2 : index
    %rows = tensor.dim %path, %c0 : !table
    %long = tensor.dim %path, %c1 : !table
    %seen_count = arith.muli %rows, %long : index
    %own_at = nn.index_select %at, %own dim 0 : (!integers, !integers) -> !integers
    %path_flat = nn.reshape %path sizes(%seen_count) : !table -> !integers
    %path_at = nn.index_select %at, %path_flat dim 0 : (!integers, !integers) -> !integers

    %nw = func.call @vector(%w1, %i) : (!matrix, index) -> !vector
    %nb = func.call @vector(%b1, %i) : (!matrix, index) -> !vector
    %w = func.call @matrix(%wq, %i) : (!stack, index) -> !matrix
    %wb = func.call @vector(%bq, %i) : (!matrix, index) -> !vector
    %ow = func.call @matrix(%wo, %i) : (!stack, index) -> !matrix
    %ob = func.call @vector(%bo, %i) : (!matrix, index) -> !vector
    %q_w = nn.slice %w dim 0 start %c0 length %width : (!matrix, index, index) -> !matrix
    %q_b = nn.slice %wb dim 0 start %c0 length %width : (!vector, index, index) -> !vector
    %kv_w = nn.slice %w dim 0 start %width length %twice : (!matrix, index, index) -> !matrix
    %kv_b = nn.slice %wb dim 0 start %width length %twice : (!vector, index, index) -> !vector
    %n, %mean, %rstd = nn.layer_norm %x, %nw, %nb epsilon 1.0e-05
      : (!matrix, !vector, !vector) -> (!matrix, !of_rows, !of_rows)
    // Queries are made where rows are fewer.
    %is_first = arith.cmpi eq, %i, %c0 : index
    %q = scf.if %is_first -> !matrix {
      %all = nn.linear %n, %q_w bias %q_b : (!matrix, !matrix, !vector) -> !matrix
      %some = nn.index_select %all, %own_at dim 0 : (!matrix, !integers) -> !matrix
      scf.yield %some : !matrix
    } else {
      %some = nn.index_select %n, %own_at dim 0 : (!matrix, !integers) -> !matrix
      %made = nn.linear %some, %q_w bias %q_b : (!matrix, !matrix, !vector) -> !matrix
      scf.yield %made : !matrix
    }
    %kv = nn.linear %n, %kv_w bias %kv_b : (!matrix, !matrix, !vector) -> !matrix
    %along = nn.index_select %kv, %path_at dim 0 : (!matrix, !integers) -> !matrix
    %split = nn.reshape %along sizes(%rows, %long, %h, %e) : !matrix -> tensor<?x?x2x?x?xf32>
    %k2, %v2 = nn.split %split dim 2 into [1, 1]
      : (tensor<?x?x2x?x?xf32>) -> (tensor<?x?x1x?x?xf32>, tensor<?x?x1x?x?xf32>)
    %k = nn.reshape %k2 sizes(%rows, %long, %h, %e) : tensor<?x?x1x?x?xf32> -> !by_head
    %v = nn.reshape %v2 sizes(%rows, %long, %h, %e) : tensor<?x?x1x?x?xf32> -> !by_head
    %q4 = nn.reshape %q sizes(%rows, %h, %e) : !matrix -> tensor<?x1x?x?xf32>

    %qk = nn.mul %q4, %k : (tensor<?x1x?x?xf32>, !by_head) -> !by_head
    %products = nn.sum %qk over [3] : (!by_head) -> !stack
    %unit = arith.constant 1.0 : f32
    %e32 = arith.index_cast %e : index to i32
    %ef = arith.sitofp %e32 : i32 to f32
    %root = math.sqrt %ef : f32
    %factor = arith.divf %unit, %root : f32
    %scale = tensor.from_elements %factor : !number
    %scores = nn.mul %products, %scale : (!stack, !number) -> !stack
    %turned = nn.transpose %scores 1, 2 : (!stack) -> !stack
    %visible3 = nn.reshape %visible sizes(%rows, %long) : !conditions -> tensor<?x1x?xi1>
    %shown = nn.select %visible3, %turned, %minus_infinity : (tensor<?x1x?xi1>, !stack, !number) -> !stack
    %probabilities = nn.softmax %shown : (!stack) -> !stack
    %back = nn.transpose %probabilities 1, 2 : (!stack) -> !stack
    %p4 = nn.reshape %back sizes(%rows, %long, %h) : !stack -> tensor<?x?x?x1xf32>
    %pv = nn.mul %p4, %v : (tensor<?x?x?x1xf32>, !by_head) -> !by_head
    %o = nn.sum %pv over [1] : (!by_head) -> !stack
    %merged = nn.reshape %o sizes(%rows, %width) : !stack -> !matrix
    %made = nn.linear %merged, %ow bias %ob : (!matrix, !matrix, !vector) -> !matrix
    %kept = pos.dropout %made probability %drop : !matrix
    %before = nn.index_select %x, %own_at dim 0 : (!matrix, !integers) -> !matrix
    %y = nn.add %before, %kept : (!matrix, !matrix) -> !matrix
    return %y : !matrix
  }

  // ---- losses ----------------------------------------------------------------------

  // Positions [sets, in each, axes], one after the other.
  func.func private @listed(%p: !sets) -> !positions {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %a = tensor.dim %p, %c0 : !sets
    %b = tensor.dim %p, %c1 : !sets
    %axes = tensor.dim %p, %c2 : !sets
    %count = arith.muli %a, %b : index
    %q = nn.reshape %p sizes(%count, %axes) : !sets -> !positions
    return %q : !positions
  }

  // Which of the candidates is nearest to the pivot: cross entropy of the products of
  // embeddings [S, width] and [S, m, width]. Of several that are as near the first
  // counts.
  func.func private @contrast(%pivot: !matrix, %candidates: !stack, %pivot_at: !positions, %candidates_at: !sets)
      -> !number {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %s = tensor.dim %candidates, %c0 : !stack
    %m = tensor.dim %candidates, %c1 : !stack
    %width = tensor.dim %candidates, %c2 : !stack
    %axes = tensor.dim %candidates_at, %c2 : !sets
    %column = nn.reshape %pivot sizes(%s, %width) : !matrix -> tensor<?x?x1xf32>
    %products = nn.matmul %candidates, %column : (!stack, tensor<?x?x1xf32>) -> tensor<?x?x1xf32>
    %logits = nn.reshape %products sizes(%s, %m) : tensor<?x?x1xf32> -> !matrix
    %q = nn.reshape %pivot_at sizes(%s, %axes) : !positions -> tensor<?x1x?xi32>
    %q64 = nn.cast %q : tensor<?x1x?xi32> -> tensor<?x1x?xf64>
    %r64 = nn.cast %candidates_at : !sets -> tensor<?x?x?xf64>
    %apart = nn.sub %r64, %q64 : (tensor<?x?x?xf64>, tensor<?x1x?xf64>) -> tensor<?x?x?xf64>
    %squares = nn.mul %apart, %apart : (tensor<?x?x?xf64>, tensor<?x?x?xf64>) -> tensor<?x?x?xf64>
    %distance = nn.sum %squares over [2] : (tensor<?x?x?xf64>) -> tensor<?x?xf64>
    %count = nn.scalar %m : tensor<f64>
    %turn = nn.iota length %m : !integers
    %turn64 = nn.cast %turn : !integers -> tensor<?xf64>
    %spread = nn.mul %distance, %count : (tensor<?x?xf64>, tensor<f64>) -> tensor<?x?xf64>
    %order = nn.add %spread, %turn64 : (tensor<?x?xf64>, tensor<?xf64>) -> tensor<?x?xf64>
    %nearest = nn.argmin %order dim 1 : (tensor<?x?xf64>) -> !integers
    %p = nn.log_softmax %logits : (!matrix) -> !matrix
    %loss, %n = nn.nll_loss %p, %nearest reduction mean : (!matrix, !integers) -> (!number, !number)
    return %loss : !number
  }

  // Logarithms of the softmax of products among the embeddings of each set, by
  // head: [sets * heads * m, m] of [sets * m, width].
  func.func private @relations(%rows: !matrix, %sets: index, %m: index, %head_n: i32) -> !matrix {
    %c1 = arith.constant 1 : index
    %width = tensor.dim %rows, %c1 : !matrix
    %h = arith.index_cast %head_n : i32 to index
    %e = arith.divsi %width, %h : index
    %a = arith.muli %sets, %h : index
    %count = arith.muli %a, %m : index
    %split = nn.reshape %rows sizes(%sets, %m, %h, %e) : !matrix -> !by_head
    %x = nn.transpose %split 1, 2 : (!by_head) -> !by_head
    %xt = nn.transpose %x 2, 3 : (!by_head) -> !by_head
    %products = nn.matmul %x, %xt : (!by_head, !by_head) -> !by_head
    %flat = nn.reshape %products sizes(%count, %m) : !by_head -> !matrix
    %p = nn.log_softmax %flat : (!matrix) -> !matrix
    return %p : !matrix
  }

  // KL(a, b) of logarithms of probabilities [rows, m], summed.
  func.func private @divergence(%a: !matrix, %b: !matrix) -> !number {
    %p = nn.exp %a : (!matrix) -> !matrix
    %d = nn.sub %a, %b : (!matrix, !matrix) -> !matrix
    %pd = nn.mul %p, %d : (!matrix, !matrix) -> !matrix
    %s = nn.sum %pd over [0, 1] : (!matrix) -> !number
    return %s : !number
  }
}
