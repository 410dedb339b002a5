// RUN: sextant-opt %s --pos-fuse-sites --split-input-file --verify-diagnostics

func.func @scalar_first(%x: tensor<?x2x?x8xf32>, %table: tensor<8x?xf32>) {
  %o, %lse = pos.attention %x, %x, (%x) params(%table : tensor<8x?xf32>)
    : tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, (tensor<?x2x?x8xf32>)
    -> (tensor<?x2x?x8xf32>), tensor<?x2x?xf32> {
  ^bb0(%t: tensor<8x?xf32>):
    pos.score {
    ^bb0(%s: f32):
      %i = arith.constant 0 : i32
      // expected-error @below {{'pos.query_dot' op has no kernel beside a score of all heads}}
      %d = pos.query_dot %t columns[%i] : tensor<8x?xf32>
      %u = arith.addf %s, %d : f32
      pos.yield %u : f32
    }
    // expected-note @below {{this score sees all heads}}
    pos.score {
    ^bb0(%s: tensor<2xf32>):
      %u = math.tanh %s : tensor<2xf32>
      pos.yield %u : tensor<2xf32>
    }
  }
  return
}

// -----

func.func @scalar_last(%x: tensor<?x2x?x8xf32>) {
  %o, %lse = pos.attention %x, %x, (%x)
    : tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, (tensor<?x2x?x8xf32>)
    -> (tensor<?x2x?x8xf32>), tensor<?x2x?xf32> {
    // expected-note @below {{this score sees all heads}}
    pos.score {
    ^bb0(%s: tensor<2xf32>):
      %u = math.tanh %s : tensor<2xf32>
      pos.yield %u : tensor<2xf32>
    }
    pos.score {
    ^bb0(%s: f32):
      %limit = arith.constant 8.0 : f32
      // expected-error @below {{'pos.scan' op has no kernel beside a score of all heads}}
      %p = pos.scan %s leftward until %limit : f32
      %u = arith.addf %s, %p : f32
      pos.yield %u : f32
    }
  }
  return
}
