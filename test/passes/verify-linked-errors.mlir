// RUN: sextant-opt %s --split-input-file --verify-diagnostics --pos-verify-linked

func.func @missing(%x: tensor<?x?x?x8xf32>) {
  // expected-error @below {{use 'c' names @absent, which is not in the module after linking}}
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@absent, "c">]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return
}

// -----

pos.encoding @one {}
func.func @options(%x: tensor<?x?x?x8xf32>) {
  // expected-error @below {{use 'o' has options after linking}}
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@one, "o", {size = 1 : i32}>]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return
}

// -----

pos.encoding @one {
  // expected-error @below {{is left after linking}}
  %n = pos.option "n" : i32 = 1 : i32
}
func.func @folded(%x: tensor<?x?x?x8xf32>) {
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@one, "o">]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return
}

// -----

pos.encoding @one {}
func.func @host(%x: tensor<?x?x?x8xf32>) {
  // expected-error @below {{use 'h' names @absent, which is not in the module after linking}}
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@one, "o", {}, [#pos.use<@absent, "h">]>]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return
}
