// RUN: sextant-opt %s --split-input-file --verify-diagnostics

pos.encoding @of_a_pair {
  %batch = pos.extent batch
  %queries = pos.extent query
  // expected-note @below {{declared here}}
  %last = pos.param "last" : tensor<?x?xi32> dims(%batch, %queries)
  pos.mask {
    %b = pos.batch
    %i = pos.index query
    %j = pos.index key
    // expected-error @below {{'pos.read' op dimension 1 of 'last' has one row per query of the call, but the index of a query counts from the first key: read it at 'pos.tensor_row query' (E1)}}
    %l = pos.read %last[%b, %i] : tensor<?x?xi32>
    %v = arith.cmpi sle, %j, %l : i32
    pos.yield %v : i1
  }
}

// -----

pos.encoding @of_a_row {
  %queries = pos.extent query
  // expected-note @below {{declared here}}
  %size = pos.param "size" : tensor<?xf32> dims(%queries)
  pos.rows of [key, query] single {
  ^bb0(%x: f32):
    %i = pos.index self
    // expected-error @below {{read it at 'pos.tensor_row self' (E1)}}
    %s = pos.read %size[%i] : tensor<?xf32>
    %y = arith.mulf %x, %s : f32
    pos.yield %y : f32
  }
}

// -----

// Rows of an embedding are all there are: their index is that of the tensor.
pos.encoding @of_an_embedding {
  %length = pos.extent query
  %size = pos.param "size" : tensor<?xf32> dims(%length)
  pos.rows of [embedding] single {
  ^bb0(%x: f32):
    %i = pos.index self
    %s = pos.read %size[%i] : tensor<?xf32>
    %y = arith.mulf %x, %s : f32
    pos.yield %y : f32
  }
}
