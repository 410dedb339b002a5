// RUN: sextant-opt %s --pos-link-encodings=search-path=%S/Inputs/mine --split-input-file --verify-diagnostics

func.func @unknown(%x: tensor<?x?x?x8xf32>) {
  // expected-error @below {{unknown encoding @kerple_lok; the nearest are 'kerple_log', }}
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@kerple_lok, "k">]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return
}

// -----

func.func @option(%x: tensor<?x?x?x8xf32>) {
  // expected-error @below {{encoding @tilt has no option 'slop'; the only one is 'slope'}}
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@tilt, "t", {slop = 1.0}>]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return
}

// -----

func.func @no_options(%x: tensor<?x?x?x8xf32>) {
  // expected-error @below {{encoding @causal has no option 'size'; there is none}}
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@causal, "c", {size = 1 : i32}>]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return
}

// -----

func.func @choice(%x: tensor<?x?x?x8xf32>) {
  // expected-error @below {{option 'pairing' of @rope has no choice "hal"; the nearest are 'half', 'interleaved'}}
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@rope, "r", {pairing = "hal"}>]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return
}

// -----

func.func @choice_by_number(%x: tensor<?x?x?x8xf32>) {
  // expected-error @below {{option 'pairing' of @rope takes the name of a choice, got 1 : i32}}
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@rope, "r", {pairing = 1 : i32}>]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return
}

// -----

func.func @option_of_64_bits(%x: tensor<?x?x?x8xf32>) {
  // expected-error @below {{option 'cap' of @softcap takes 'f32', got 100000000000000000005 : i128}}
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@softcap, "c", {cap = 100000000000000000005 : i128}>]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return
}

// -----

func.func @option_unsigned(%x: tensor<?x?x?x8xf32>) {
  // expected-error @below {{option 'size' of @window takes 'i32', got 60000 : ui16}}
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@window, "w", {size = 60000 : ui16}>]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return
}

// -----

func.func @option_type(%x: tensor<?x?x?x8xf32>) {
  // expected-error @below {{option 'size' of @window takes 'i32', got 1.500000e+00 : f64}}
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@window, "w", {size = 1.5}>]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return
}

// -----

func.func @instances(%x: tensor<?x?x?x8xf32>) {
  // expected-error @below {{has two uses called 'w': give one of them another instance name}}
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@window, "w">, #pos.use<@causal, "w">]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return
}

// -----

func.func @hosts(%x: tensor<?x?x?x8xf32>) {
  // expected-error @below {{use 'c' names hosts, but there is no 'pos.host' in @causal}}
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@causal, "c", {}, [#pos.use<@alibi, "alibi">]>]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return
}

// -----

pos.encoding @mixer {
  pos.score {
  ^bb0(%s: f32):
    %b = pos.host : f32
    pos.yield %b : f32
  }
}
func.func @two_hosts(%x: tensor<?x?x?x8xf32>) {
  // expected-error @below {{use 'm' has two hosts called 'a'}}
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@mixer, "m", {}, [#pos.use<@alibi, "a">, #pos.use<@causal, "a">]>]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return
}

// -----

pos.encoding @mixer {
  pos.score {
  ^bb0(%s: f32):
    %b = pos.host : f32
    pos.yield %b : f32
  }
}
func.func @unknown_host(%x: tensor<?x?x?x8xf32>) {
  // expected-error @below {{unknown encoding @alibie; the nearest are 'alibi'}}
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@mixer, "m", {}, [#pos.use<@alibie, "a">]>]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return
}

// -----

func.func @misnamed(%x: tensor<?x?x?x8xf32>) {
  // expected-error-re @below {{expected @misnamed in {{.*}}misnamed.mlir, which does not define it}}
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@misnamed, "m">]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return
}

// -----

// Numbers beyond the range of an option.
func.func @option_below(%x: tensor<?x?x?x8xf32>) {
  // expected-error @below {{option 'size' of @window is -1, but must be at least 1}}
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@window, "w", {size = -1}>]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return
}

// -----

// Zero is not above zero.
func.func @option_not_above(%x: tensor<?x?x?x8xf32>) {
  // expected-error @below {{option 'base' of @rope is 0, but must be above 0}}
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@rope, "r", {base = 0.0}>]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return
}

// -----

// All limits are told.
func.func @option_multiple(%x: tensor<?x?x?x8xf32>) {
  // expected-error @below {{option 'width' of @sandwich is 5, but must be at least 2 and at most 65536 and a multiple of 2}}
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@sandwich, "s", {width = 5}>]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return
}

// -----

// An f32 is finite though no range is declared; 1e39 is none.
func.func @option_finite(%x: tensor<?x?x?x8xf32>) {
  // expected-error @below {{option 'slope' of @tilt is 1e+39 (inf in f32), but must be finite}}
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@tilt, "t", {slope = 1.0e39 : f64}>]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return
}

// -----

// An option that the others switch off: the choice that does it is named.
func.func @no_effect(%x: tensor<?x?x?x8xf32>) {
  // expected-error @below {{option 'factor' of @rope has no effect with pairing=half, scaling=none: leave it out, or change what it depends on}}
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@rope, "r", {factor = 2.0}>]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return
}

// -----

// What only feeds a requirement that holds anyway has no effect either.
func.func @not_required(%x: tensor<?x?x?x8xf32>) {
  // expected-error @below {{option 'train_length' of @rope has no effect with pairing=half, scaling=linear}}
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@rope, "r", {scaling = "linear", factor = 2.0, train_length = 64 : i32}>]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return
}

// -----

pos.encoding @unread {
  %size = pos.option "size" : i32 = 4 : i32
  pos.mask {
    %v = arith.constant true
    pos.yield %v : i1
  }
}
func.func @never_read(%x: tensor<?x?x?x8xf32>) {
  // expected-error @below {{option 'size' of @unread has no effect: leave it out}}
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@unread, "u", {size = 5 : i32}>]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return
}
