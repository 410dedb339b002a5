// RUN: sextant-opt %s --split-input-file --verify-diagnostics

// Values do not turn.
pos.encoding @turns_values {
  %n = arith.constant 2 : i32
  // expected-error @below {{'pos.turn_rows' op turns rows of query and key, not of value (T1)}}
  pos.turn_rows of [query, value] blocks %n {
  ^bb0(%block: i32, %row: i32, %column: i32):
    %a = arith.constant 1.0 : f32
    pos.yield %a : f32
  }
}

// -----

pos.encoding @turns_by_vectors {
  %n = arith.constant 2 : i32
  // expected-error @below {{'pos.turn_rows' op payload must take block, row and column (i32, i32, i32) of the matrix's element}}
  pos.turn_rows of [query] blocks %n {
  ^bb0(%x: f32):
    pos.yield %x : f32
  }
}

// -----

pos.encoding @turns_by_lane {
  %n = arith.constant 2 : i32
  // expected-error @below {{'pos.turn_rows' op payload asks for what there is not at this place}}
  pos.turn_rows of [query] blocks %n {
  ^bb0(%block: i32, %row: i32, %column: i32):
    // expected-note @below {{'pos.lane' of another side}}
    %t = pos.lane
    %a = arith.sitofp %t : i32 to f32
    pos.yield %a : f32
  }
}
