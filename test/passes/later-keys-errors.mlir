// Masks that hide later keys, in each spelling, and masks that do not.
// RUN: sextant-opt %s --split-input-file --verify-diagnostics --pos-verify-hoisted

// key < query + 1
func.func @less_than_next(%x: tensor<?x?x?x8xf32>) {
  %o, %lse = pos.attention %x, %x, (%x)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
    pos.require_past "the map needs the past"
    pos.mask {
      %one = arith.constant 1 : i32
      %i = pos.index query
      %j = pos.index key
      %next = arith.addi %i, %one : i32
      %v = arith.cmpi slt, %j, %next : i32
      pos.yield %v : i1
    }
  }
  return
}

// -----

// query + 1 > key
func.func @next_greater(%x: tensor<?x?x?x8xf32>) {
  %o, %lse = pos.attention %x, %x, (%x)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
    pos.require_past "the map needs the past"
    pos.mask {
      %one = arith.constant 1 : i32
      %i = pos.index query
      %j = pos.index key
      %next = arith.addi %i, %one : i32
      %v = arith.cmpi sgt, %next, %j : i32
      pos.yield %v : i1
    }
  }
  return
}

// -----

// not (key > query)
func.func @not_later(%x: tensor<?x?x?x8xf32>) {
  %o, %lse = pos.attention %x, %x, (%x)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
    pos.require_past "the map needs the past"
    pos.mask {
      %true = arith.constant true
      %i = pos.index query
      %j = pos.index key
      %later = arith.cmpi sgt, %j, %i : i32
      %v = arith.xori %later, %true : i1
      pos.yield %v : i1
    }
  }
  return
}

// -----

// not (head == 0 or query < key)
func.func @not_either(%x: tensor<?x?x?x8xf32>) {
  %o, %lse = pos.attention %x, %x, (%x)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
    pos.require_past "the map needs the past"
    pos.mask {
      %true = arith.constant true
      %zero = arith.constant 0 : i32
      %i = pos.index query
      %j = pos.index key
      %far = pos.head
      %other = arith.cmpi eq, %far, %zero : i32
      %later = arith.cmpi slt, %i, %j : i32
      %either = arith.ori %other, %later : i1
      %v = arith.xori %either, %true : i1
      pos.yield %v : i1
    }
  }
  return
}

// -----

// query - key >= 0
func.func @difference(%x: tensor<?x?x?x8xf32>) {
  %o, %lse = pos.attention %x, %x, (%x)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
    pos.require_past "the map needs the past"
    pos.mask {
      %zero = arith.constant 0 : i32
      %i = pos.index query
      %j = pos.index key
      %d = arith.subi %i, %j : i32
      %v = arith.cmpi sge, %d, %zero : i32
      pos.yield %v : i1
    }
  }
  return
}

// -----

// 0 >= key - query
func.func @mirrored_difference(%x: tensor<?x?x?x8xf32>) {
  %o, %lse = pos.attention %x, %x, (%x)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
    pos.require_past "the map needs the past"
    pos.mask {
      %zero = arith.constant 0 : i32
      %i = pos.index query
      %j = pos.index key
      %d = arith.subi %j, %i : i32
      %v = arith.cmpi sge, %zero, %d : i32
      pos.yield %v : i1
    }
  }
  return
}

// -----

// query + -1 * key > -1
func.func @negative_difference(%x: tensor<?x?x?x8xf32>) {
  %o, %lse = pos.attention %x, %x, (%x)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
    pos.require_past "the map needs the past"
    pos.mask {
      %minus = arith.constant -1 : i32
      %i = pos.index query
      %j = pos.index key
      %m = arith.muli %j, %minus : i32
      %d = arith.addi %i, %m : i32
      %v = arith.cmpi sgt, %d, %minus : i32
      pos.yield %v : i1
    }
  }
  return
}

// -----

// offset <= 0
func.func @offset(%x: tensor<?x?x?x8xf32>) {
  %o, %lse = pos.attention %x, %x, (%x)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
    pos.require_past "the map needs the past"
    pos.mask {
      %zero = arith.constant 0 : i32
      %o = pos.offset
      %v = arith.cmpi sle, %o, %zero : i32
      pos.yield %v : i1
    }
  }
  return
}

// -----

// key position <= query position, which without positions are indices
func.func @coordinates(%x: tensor<?x?x?x8xf32>) {
  %o, %lse = pos.attention %x, %x, (%x)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
    pos.require_past "the map needs the past"
    pos.mask {
      %i = pos.coord query
      %j = pos.coord key
      %v = arith.cmpi sle, %j, %i : i32
      pos.yield %v : i1
    }
  }
  return
}

// -----

// key == query
func.func @own_key(%x: tensor<?x?x?x8xf32>) {
  %o, %lse = pos.attention %x, %x, (%x)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
    pos.require_past "the map needs the past"
    pos.mask {
      %i = pos.index query
      %j = pos.index key
      %v = arith.cmpi eq, %j, %i : i32
      pos.yield %v : i1
    }
  }
  return
}

// -----

// key == query or key < query
func.func @either_past(%x: tensor<?x?x?x8xf32>) {
  %o, %lse = pos.attention %x, %x, (%x)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
    pos.require_past "the map needs the past"
    pos.mask {
      %i = pos.index query
      %j = pos.index key
      %own = arith.cmpi eq, %j, %i : i32
      %past = arith.cmpi slt, %j, %i : i32
      %v = arith.ori %own, %past : i1
      pos.yield %v : i1
    }
  }
  return
}

// -----

// key <= query + 1 sees the next one
func.func @next_key(%x: tensor<?x?x?x8xf32>) {
  // expected-error @below {{the map needs the past: some query may see a later key}}
  %o, %lse = pos.attention %x, %x, (%x)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
    // expected-note @below {{required here}}
    pos.require_past "the map needs the past"
    pos.mask {
      %one = arith.constant 1 : i32
      %i = pos.index query
      %j = pos.index key
      %next = arith.addi %i, %one : i32
      %v = arith.cmpi sle, %j, %next : i32
      pos.yield %v : i1
    }
  }
  return
}

// -----

// not (key < query)
func.func @not_earlier(%x: tensor<?x?x?x8xf32>) {
  // expected-error @below {{the map needs the past: some query may see a later key}}
  %o, %lse = pos.attention %x, %x, (%x)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
    // expected-note @below {{required here}}
    pos.require_past "the map needs the past"
    pos.mask {
      %true = arith.constant true
      %i = pos.index query
      %j = pos.index key
      %earlier = arith.cmpi slt, %j, %i : i32
      %v = arith.xori %earlier, %true : i1
      pos.yield %v : i1
    }
  }
  return
}

// -----

// key == 0 or key <= query is not known to hide: the first key may be later
func.func @either(%x: tensor<?x?x?x8xf32>) {
  // expected-error @below {{the map needs the past: some query may see a later key}}
  %o, %lse = pos.attention %x, %x, (%x)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
    // expected-note @below {{required here}}
    pos.require_past "the map needs the past"
    pos.mask {
      %zero = arith.constant 0 : i32
      %i = pos.index query
      %j = pos.index key
      %first = arith.cmpi eq, %j, %zero : i32
      %past = arith.cmpi sle, %j, %i : i32
      %v = arith.ori %first, %past : i1
      pos.yield %v : i1
    }
  }
  return
}

// -----

// query + key <= 9
func.func @sum(%x: tensor<?x?x?x8xf32>) {
  // expected-error @below {{the map needs the past: some query may see a later key}}
  %o, %lse = pos.attention %x, %x, (%x)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
    // expected-note @below {{required here}}
    pos.require_past "the map needs the past"
    pos.mask {
      %most = arith.constant 9 : i32
      %i = pos.index query
      %j = pos.index key
      %s = arith.addi %i, %j : i32
      %v = arith.cmpi sle, %s, %most : i32
      pos.yield %v : i1
    }
  }
  return
}

// -----

// key + 2147483647 <= query: the sum does not fit 32 bits
func.func @wrapped(%x: tensor<?x?x?x8xf32>) {
  // expected-error @below {{the map needs the past: some query may see a later key}}
  %o, %lse = pos.attention %x, %x, (%x)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
    // expected-note @below {{required here}}
    pos.require_past "the map needs the past"
    pos.mask {
      %most = arith.constant 2147483647 : i32
      %i = pos.index query
      %j = pos.index key
      %s = arith.addi %j, %most : i32
      %v = arith.cmpi sle, %s, %i : i32
      pos.yield %v : i1
    }
  }
  return
}

// -----

// Given positions need not grow with the index.
func.func @positions(%x: tensor<?x?x?x8xf32>, %p: tensor<1x?x1xi32>) {
  // expected-error @below {{the map needs the past: some query may see a later key}}
  %o, %lse = pos.attention %x, %x, (%x)
    query_positions(%p : tensor<1x?x1xi32>) key_positions(%p : tensor<1x?x1xi32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
    // expected-note @below {{required here}}
    pos.require_past "the map needs the past"
    pos.mask {
      %zero = arith.constant 0 : i32
      %o = pos.offset
      %v = arith.cmpi sle, %o, %zero : i32
      pos.yield %v : i1
    }
  }
  return
}

// -----

// Any part of a conjunction may say it.
func.func @conjunction(%x: tensor<?x?x?x8xf32>) {
  %o, %lse = pos.attention %x, %x, (%x)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
    pos.require_past "the map needs the past"
    pos.mask {
      %zero = arith.constant 0 : i32
      %size = arith.constant 9 : i32
      %i = pos.index query
      %j = pos.index key
      %d = arith.subi %i, %j : i32
      %near = arith.cmpi slt, %d, %size : i32
      %past = arith.cmpi sge, %d, %zero : i32
      %v = arith.andi %near, %past : i1
      pos.yield %v : i1
    }
  }
  return
}
