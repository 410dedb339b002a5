// RUN: sextant-opt %s --split-input-file --pos-form-offset-products | FileCheck %s
// RUN: sextant-opt %s --split-input-file --pos-form-offset-products --pos-form-offset-products --canonicalize --cse --pos-verify-hoisted -o /dev/null
// RUN: sextant-opt %s --split-input-file --pos-form-offset-products --remarks-filter=pos-form-offset-products -o /dev/null 2>&1 | FileCheck %s --check-prefix=COUNT

// A factor of column and offset, on either side.
// COUNT: rewritten | Category:pos-form-offset-products | Products=0, Sums=1
// CHECK-LABEL: func.func @factor
// CHECK: ^bb0(%[[W:.+]]: tensor<8x5xf32>):
// CHECK: %[[N:.+]] = arith.constant 5
// CHECK: %[[Y:.+]] = pos.offset_dot %[[W]] columns to %[[N]] {
// CHECK-NEXT: ^bb0(%{{[a-z0-9]+}}: i32):
// CHECK-NOT: pos.query_dot
// CHECK: %[[U:.+]] = math.sin
// CHECK-NEXT: pos.yield %[[U]]
// CHECK: arith.addf %{{.+}}, %[[Y]]
func.func @factor(%q: tensor<?x?x?x8xf32>, %p0: tensor<8x5xf32>) {
  %o, %lse = pos.attention %q, %q, (%q) params(%p0 : tensor<8x5xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
  ^bb0(%w: tensor<8x5xf32>):
    pos.score {
    ^bb0(%s: f32):
      %n = arith.constant 5 : i32
      %d = pos.offset
      %f = arith.sitofp %d : i32 to f32
      %y = pos.sum to %n {
      ^bb0(%c: i32):
        %i = arith.sitofp %c : i32 to f32
        %a = arith.mulf %f, %i : f32
        %u = math.sin %a : f32
        %z = pos.query_dot %w columns[%c] : tensor<8x5xf32>
        %t = arith.mulf %u, %z : f32
        pos.yield %t : f32
      } : f32
      %r = arith.addf %s, %y : f32
      pos.yield %r : f32
    }
  }
  return
}

// -----

// (z * c) * f: factors on both levels, their product in the order of the term.
// COUNT: rewritten | Category:pos-form-offset-products | Products=0, Sums=1
// CHECK-LABEL: func.func @nested
// CHECK: pos.offset_dot
// CHECK: %[[I:.+]] = arith.sitofp %{{.+}} : i32 to f32
// CHECK: %[[U:.+]] = math.sin
// CHECK: %[[F:.+]] = arith.mulf %[[I]], %[[U]]
// CHECK-NEXT: pos.yield %[[F]]
func.func @nested(%q: tensor<?x?x?x8xf32>, %p0: tensor<8x5xf32>) {
  %o, %lse = pos.attention %q, %q, (%q) params(%p0 : tensor<8x5xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
  ^bb0(%w: tensor<8x5xf32>):
    pos.score {
    ^bb0(%s: f32):
      %n = arith.constant 5 : i32
      %d = pos.offset
      %f = arith.sitofp %d : i32 to f32
      %y = pos.sum to %n {
      ^bb0(%c: i32):
        %i = arith.sitofp %c : i32 to f32
        %a = arith.mulf %f, %i : f32
        %u = math.sin %a : f32
        %z = pos.query_dot %w columns[%c] : tensor<8x5xf32>
        %p = arith.mulf %z, %i : f32
        %t = arith.mulf %p, %u : f32
        pos.yield %t : f32
      } : f32
      %r = arith.addf %s, %y : f32
      pos.yield %r : f32
    }
  }
  return
}

// -----

// f * (c * z)
// COUNT: rewritten | Category:pos-form-offset-products | Products=0, Sums=1
// CHECK-LABEL: func.func @turned
// CHECK: pos.offset_dot
// CHECK: math.sin
// CHECK-NEXT: %[[F:.+]] = arith.mulf
// CHECK-NEXT: pos.yield %[[F]]
func.func @turned(%q: tensor<?x?x?x8xf32>, %p0: tensor<8x5xf32>) {
  %o, %lse = pos.attention %q, %q, (%q) params(%p0 : tensor<8x5xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
  ^bb0(%w: tensor<8x5xf32>):
    pos.score {
    ^bb0(%s: f32):
      %n = arith.constant 5 : i32
      %d = pos.offset
      %f = arith.sitofp %d : i32 to f32
      %y = pos.sum to %n {
      ^bb0(%c: i32):
        %i = arith.sitofp %c : i32 to f32
        %a = arith.mulf %f, %i : f32
        %u = math.sin %a : f32
        %z = pos.query_dot %w columns[%c] : tensor<8x5xf32>
        %p = arith.mulf %i, %z : f32
        %t = arith.mulf %u, %p : f32
        pos.yield %t : f32
      } : f32
      %r = arith.addf %s, %y : f32
      pos.yield %r : f32
    }
  }
  return
}

// -----

// -((z * f) / c): a divisor and a sign.
// COUNT: rewritten | Category:pos-form-offset-products | Products=0, Sums=1
// CHECK-LABEL: func.func @quotient
// CHECK: pos.offset_dot
// CHECK: %[[G:.+]] = arith.divf
// CHECK-NEXT: %[[F:.+]] = arith.negf %[[G]]
// CHECK-NEXT: pos.yield %[[F]]
func.func @quotient(%q: tensor<?x?x?x8xf32>, %p0: tensor<8x5xf32>) {
  %o, %lse = pos.attention %q, %q, (%q) params(%p0 : tensor<8x5xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
  ^bb0(%w: tensor<8x5xf32>):
    pos.score {
    ^bb0(%s: f32):
      %n = arith.constant 5 : i32
      %d = pos.offset
      %f = arith.sitofp %d : i32 to f32
      %y = pos.sum to %n {
      ^bb0(%c: i32):
        %i = arith.sitofp %c : i32 to f32
        %a = arith.mulf %f, %i : f32
        %u = math.sin %a : f32
        %z = pos.query_dot %w columns[%c] : tensor<8x5xf32>
        %p = arith.mulf %z, %u : f32
        %g = arith.divf %p, %i : f32
        %t = arith.negf %g : f32
        pos.yield %t : f32
      } : f32
      %r = arith.addf %s, %y : f32
      pos.yield %r : f32
    }
  }
  return
}

// -----

// A sum of products alone has the factor 1; the row of the head is added.
// COUNT: rewritten | Category:pos-form-offset-products | Products=0, Sums=1
// CHECK-LABEL: func.func @alone
// CHECK: ^bb0(%[[W:.+]]: tensor<8x5xf32>, %[[V:.+]]: tensor<?x8xf32>):
// CHECK: pos.offset_dot %[[W]] columns plus %[[V]] to
// CHECK: %[[ONE:.+]] = arith.constant 1.0
// CHECK: arith.negf %[[ONE]]
func.func @alone(%q: tensor<?x?x?x8xf32>, %p0: tensor<8x5xf32>, %p1: tensor<?x8xf32>) {
  %o, %lse = pos.attention %q, %q, (%q) params(%p0, %p1 : tensor<8x5xf32>, tensor<?x8xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
  ^bb0(%w: tensor<8x5xf32>, %v: tensor<?x8xf32>):
    pos.score {
    ^bb0(%s: f32):
      %n = arith.constant 5 : i32
      %d = pos.offset
      %f = arith.sitofp %d : i32 to f32
      %y = pos.sum to %n {
      ^bb0(%c: i32):
        %i = arith.sitofp %c : i32 to f32
        %a = arith.mulf %f, %i : f32
        %u = math.sin %a : f32
        %z = pos.query_dot %w columns[%c] plus %v : tensor<8x5xf32>, tensor<?x8xf32>
        %t = arith.negf %z : f32
        pos.yield %t : f32
      } : f32
      %r = arith.addf %s, %y : f32
      pos.yield %r : f32
    }
  }
  return
}

// -----

// An index that is the offset or its magnitude, with either sign, plus what all scores share.
// COUNT: rewritten | Category:pos-form-offset-products | Products=1, Sums=0
// CHECK-LABEL: func.func @index
// CHECK: %[[K:.+]] = arith.subi
// CHECK: pos.offset_dot %{{.+}}[%[[K]]] : tensor<?x8xf32>
func.func @index(%q: tensor<?x?x?x8xf32>, %p0: tensor<?x8xf32>) {
  %o, %lse = pos.attention %q, %q, (%q) params(%p0 : tensor<?x8xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
  ^bb0(%v: tensor<?x8xf32>):
    pos.score {
    ^bb0(%s: f32):
      %n = arith.constant 5 : i32
      %d = pos.offset
      %f = arith.sitofp %d : i32 to f32
      %e = pos.extent key
      %m = math.absi %d : i32
      %k = arith.subi %e, %m : i32
      %y = pos.query_dot %v[%k] : tensor<?x8xf32>
      %r = arith.addf %s, %y : f32
      pos.yield %r : f32
    }
  }
  return
}

// -----

// A factor of the head.
// COUNT: declined | Category:pos-form-offset-products | Reason="a factor varies with more than column and offset, or reads a parameter"
// CHECK-LABEL: func.func @head
// CHECK-NOT: pos.offset_dot
// CHECK: pos.query_dot
func.func @head(%q: tensor<?x?x?x8xf32>, %p0: tensor<8x5xf32>) {
  %o, %lse = pos.attention %q, %q, (%q) params(%p0 : tensor<8x5xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
  ^bb0(%w: tensor<8x5xf32>):
    pos.score {
    ^bb0(%s: f32):
      %n = arith.constant 5 : i32
      %d = pos.offset
      %f = arith.sitofp %d : i32 to f32
      %y = pos.sum to %n {
      ^bb0(%c: i32):
        %i = arith.sitofp %c : i32 to f32
        %a = arith.mulf %f, %i : f32
        %u = math.sin %a : f32
        %z = pos.query_dot %w columns[%c] : tensor<8x5xf32>
        %h = pos.head
        %k = arith.sitofp %h : i32 to f32
        %t = arith.mulf %z, %k : f32
        pos.yield %t : f32
      } : f32
      %r = arith.addf %s, %y : f32
      pos.yield %r : f32
    }
  }
  return
}

// -----

// A factor that is trained: rows have no gradient for it.
// COUNT: declined | Category:pos-form-offset-products | Reason="a factor varies with more than column and offset, or reads a parameter"
// CHECK-LABEL: func.func @trained
// CHECK-NOT: pos.offset_dot
// CHECK: pos.query_dot
func.func @trained(%q: tensor<?x?x?x8xf32>, %p0: tensor<8x5xf32>, %p1: tensor<5xf32>) {
  %o, %lse = pos.attention %q, %q, (%q) params(%p0, %p1 : tensor<8x5xf32>, tensor<5xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
  ^bb0(%w: tensor<8x5xf32>, %rates: tensor<5xf32>):
    pos.score {
    ^bb0(%s: f32):
      %n = arith.constant 5 : i32
      %d = pos.offset
      %f = arith.sitofp %d : i32 to f32
      %y = pos.sum to %n {
      ^bb0(%c: i32):
        %i = arith.sitofp %c : i32 to f32
        %a = arith.mulf %f, %i : f32
        %u = math.sin %a : f32
        %z = pos.query_dot %w columns[%c] : tensor<8x5xf32>
        %k = pos.read %rates[%c] : tensor<5xf32>
        %t = arith.mulf %z, %k : f32
        pos.yield %t : f32
      } : f32
      %r = arith.addf %s, %y : f32
      pos.yield %r : f32
    }
  }
  return
}

// -----

// A term that is not a product.
// COUNT: declined | Category:pos-form-offset-products | Reason="its term is no product of a 'pos.query_dot' and factors"
// CHECK-LABEL: func.func @offset_term
// CHECK-NOT: pos.offset_dot
// CHECK: pos.query_dot
func.func @offset_term(%q: tensor<?x?x?x8xf32>, %p0: tensor<8x5xf32>) {
  %o, %lse = pos.attention %q, %q, (%q) params(%p0 : tensor<8x5xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
  ^bb0(%w: tensor<8x5xf32>):
    pos.score {
    ^bb0(%s: f32):
      %n = arith.constant 5 : i32
      %d = pos.offset
      %f = arith.sitofp %d : i32 to f32
      %y = pos.sum to %n {
      ^bb0(%c: i32):
        %i = arith.sitofp %c : i32 to f32
        %a = arith.mulf %f, %i : f32
        %u = math.sin %a : f32
        %z = pos.query_dot %w columns[%c] : tensor<8x5xf32>
        %t = arith.addf %z, %u : f32
        pos.yield %t : f32
      } : f32
      %r = arith.addf %s, %y : f32
      pos.yield %r : f32
    }
  }
  return
}

// -----

// The square of the product.
// COUNT: declined | Category:pos-form-offset-products | Reason="its term multiplies a 'pos.query_dot' with itself"
// CHECK-LABEL: func.func @square
// CHECK-NOT: pos.offset_dot
// CHECK: pos.query_dot
func.func @square(%q: tensor<?x?x?x8xf32>, %p0: tensor<8x5xf32>) {
  %o, %lse = pos.attention %q, %q, (%q) params(%p0 : tensor<8x5xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
  ^bb0(%w: tensor<8x5xf32>):
    pos.score {
    ^bb0(%s: f32):
      %n = arith.constant 5 : i32
      %d = pos.offset
      %f = arith.sitofp %d : i32 to f32
      %y = pos.sum to %n {
      ^bb0(%c: i32):
        %i = arith.sitofp %c : i32 to f32
        %a = arith.mulf %f, %i : f32
        %u = math.sin %a : f32
        %z = pos.query_dot %w columns[%c] : tensor<8x5xf32>
        %t = arith.mulf %z, %z : f32
        pos.yield %t : f32
      } : f32
      %r = arith.addf %s, %y : f32
      pos.yield %r : f32
    }
  }
  return
}

// -----

// A quotient by the product.
// COUNT: declined | Category:pos-form-offset-products | Reason="its term divides by a 'pos.query_dot'"
// CHECK-LABEL: func.func @divided
// CHECK-NOT: pos.offset_dot
// CHECK: pos.query_dot
func.func @divided(%q: tensor<?x?x?x8xf32>, %p0: tensor<8x5xf32>) {
  %o, %lse = pos.attention %q, %q, (%q) params(%p0 : tensor<8x5xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
  ^bb0(%w: tensor<8x5xf32>):
    pos.score {
    ^bb0(%s: f32):
      %n = arith.constant 5 : i32
      %d = pos.offset
      %f = arith.sitofp %d : i32 to f32
      %y = pos.sum to %n {
      ^bb0(%c: i32):
        %i = arith.sitofp %c : i32 to f32
        %a = arith.mulf %f, %i : f32
        %u = math.sin %a : f32
        %z = pos.query_dot %w columns[%c] : tensor<8x5xf32>
        %t = arith.divf %u, %z : f32
        pos.yield %t : f32
      } : f32
      %r = arith.addf %s, %y : f32
      pos.yield %r : f32
    }
  }
  return
}

// -----

// A column of its own.
// COUNT: declined | Category:pos-form-offset-products | Reason="its 'pos.query_dot' is not of the sum's own column"
// CHECK-LABEL: func.func @other_column
// CHECK-NOT: pos.offset_dot
// CHECK: pos.query_dot
func.func @other_column(%q: tensor<?x?x?x8xf32>, %p0: tensor<8x5xf32>) {
  %o, %lse = pos.attention %q, %q, (%q) params(%p0 : tensor<8x5xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
  ^bb0(%w: tensor<8x5xf32>):
    pos.score {
    ^bb0(%s: f32):
      %n = arith.constant 5 : i32
      %d = pos.offset
      %f = arith.sitofp %d : i32 to f32
      %y = pos.sum to %n {
      ^bb0(%c: i32):
        %i = arith.sitofp %c : i32 to f32
        %a = arith.mulf %f, %i : f32
        %u = math.sin %a : f32
        %z = pos.query_dot %w columns[%n] : tensor<8x5xf32>
        %t = arith.mulf %z, %u : f32
        pos.yield %t : f32
      } : f32
      %r = arith.addf %s, %y : f32
      pos.yield %r : f32
    }
  }
  return
}

// -----

// Two products in one term.
// COUNT: declined | Category:pos-form-offset-products | Reason="it has more than one 'pos.query_dot'"
// CHECK-LABEL: func.func @two
// CHECK-NOT: pos.offset_dot
// CHECK: pos.query_dot
func.func @two(%q: tensor<?x?x?x8xf32>, %p0: tensor<8x5xf32>) {
  %o, %lse = pos.attention %q, %q, (%q) params(%p0 : tensor<8x5xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
  ^bb0(%w: tensor<8x5xf32>):
    pos.score {
    ^bb0(%s: f32):
      %n = arith.constant 5 : i32
      %d = pos.offset
      %f = arith.sitofp %d : i32 to f32
      %y = pos.sum to %n {
      ^bb0(%c: i32):
        %i = arith.sitofp %c : i32 to f32
        %a = arith.mulf %f, %i : f32
        %u = math.sin %a : f32
        %z = pos.query_dot %w columns[%c] : tensor<8x5xf32>
        %z2 = pos.query_dot %w columns[%n] : tensor<8x5xf32>
        %p = arith.mulf %z, %z2 : f32
        %t = arith.mulf %p, %u : f32
        pos.yield %t : f32
      } : f32
      %r = arith.addf %s, %y : f32
      pos.yield %r : f32
    }
  }
  return
}

// -----

// A number of columns of its own for each offset.
// COUNT: declined | Category:pos-form-offset-products | Reason="its number of columns is not the same for all scores"
// CHECK-LABEL: func.func @count
// CHECK-NOT: pos.offset_dot
// CHECK: pos.query_dot
func.func @count(%q: tensor<?x?x?x8xf32>, %p0: tensor<8x5xf32>) {
  %o, %lse = pos.attention %q, %q, (%q) params(%p0 : tensor<8x5xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
  ^bb0(%w: tensor<8x5xf32>):
    pos.score {
    ^bb0(%s: f32):
      %n = arith.constant 5 : i32
      %d = pos.offset
      %f = arith.sitofp %d : i32 to f32
      %y = pos.sum to %d {
      ^bb0(%c: i32):
        %i = arith.sitofp %c : i32 to f32
        %a = arith.mulf %f, %i : f32
        %u = math.sin %a : f32
        %z = pos.query_dot %w columns[%c] : tensor<8x5xf32>
        %t = arith.mulf %z, %u : f32
        pos.yield %t : f32
      } : f32
      %r = arith.addf %s, %y : f32
      pos.yield %r : f32
    }
  }
  return
}

// -----

// An index that is clipped to bounds far from each other, and the key row.
// COUNT: rewritten | Category:pos-form-offset-products | Products=2, Sums=0
// CHECK-LABEL: func.func @far_bounds
// CHECK: pos.offset_dot %{{.+}}[%[[C:.+]]] : tensor<?x8xf32>
// CHECK: pos.offset_dot key %{{.+}}[%[[C]]] : tensor<?x8xf32>
func.func @far_bounds(%q: tensor<?x?x?x8xf32>, %p0: tensor<?x8xf32>) {
  %o, %lse = pos.attention %q, %q, (%q) params(%p0 : tensor<?x8xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
  ^bb0(%v: tensor<?x8xf32>):
    pos.score {
    ^bb0(%s: f32):
      %n = arith.constant 0 : i32
      %m = arith.constant 128 : i32
      %d = pos.offset
      %f = arith.subi %m, %d : i32
      %k = arith.maxsi %n, %f : i32
      %c = arith.minsi %k, %m : i32
      %y = pos.query_dot %v[%c] : tensor<?x8xf32>
      %z = pos.key_dot %v[%c] : tensor<?x8xf32>
      %x = arith.addf %y, %z : f32
      %r = arith.addf %s, %x : f32
      pos.yield %r : f32
    }
  }
  return
}

// -----

// Bounds that leave fewer values than that.
// COUNT: declined | Category:pos-form-offset-products | Reason="its index does not determine the offset"
// CHECK-LABEL: func.func @near_bounds
// CHECK-NOT: pos.offset_dot
// CHECK: pos.key_dot
func.func @near_bounds(%q: tensor<?x?x?x8xf32>, %p0: tensor<?x8xf32>) {
  %o, %lse = pos.attention %q, %q, (%q) params(%p0 : tensor<?x8xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
  ^bb0(%v: tensor<?x8xf32>):
    pos.score {
    ^bb0(%s: f32):
      %n = arith.constant 0 : i32
      %m = arith.constant 127 : i32
      %d = pos.offset
      %k = arith.maxsi %d, %n : i32
      %c = arith.minsi %k, %m : i32
      %y = pos.key_dot %v[%c] : tensor<?x8xf32>
      %r = arith.addf %s, %y : f32
      pos.yield %r : f32
    }
  }
  return
}

// -----

// One bound: the mask may leave few values, and products with all rows are made
// once per query.
// COUNT: declined | Category:pos-form-offset-products | Reason="its index does not determine the offset"
// CHECK-LABEL: func.func @clipped
// CHECK-NOT: pos.offset_dot
// CHECK: pos.query_dot
func.func @clipped(%q: tensor<?x?x?x8xf32>, %p0: tensor<?x8xf32>) {
  %o, %lse = pos.attention %q, %q, (%q) params(%p0 : tensor<?x8xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
  ^bb0(%v: tensor<?x8xf32>):
    pos.score {
    ^bb0(%s: f32):
      %n = arith.constant 5 : i32
      %d = pos.offset
      %f = arith.sitofp %d : i32 to f32
      %k = arith.minsi %d, %n : i32
      %y = pos.query_dot %v[%k] : tensor<?x8xf32>
      %r = arith.addf %s, %y : f32
      pos.yield %r : f32
    }
  }
  return
}

// -----

// Given positions have gaps.
// COUNT: declined | Category:pos-form-offset-products | Reason="positions are given: offsets have gaps"
// CHECK-LABEL: func.func @positions
// CHECK-NOT: pos.offset_dot
// CHECK: pos.query_dot
func.func @positions(%q: tensor<?x?x?x8xf32>, %p0: tensor<?x8xf32>, %at: tensor<1x?x1xi32>) {
  %o, %lse = pos.attention %q, %q, (%q) params(%p0 : tensor<?x8xf32>)
    query_positions(%at : tensor<1x?x1xi32>) key_positions(%at : tensor<1x?x1xi32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
  ^bb0(%v: tensor<?x8xf32>):
    pos.score {
    ^bb0(%s: f32):
      %n = arith.constant 5 : i32
      %d = pos.offset
      %f = arith.sitofp %d : i32 to f32
      %y = pos.query_dot %v[%d] : tensor<?x8xf32>
      %r = arith.addf %s, %y : f32
      pos.yield %r : f32
    }
  }
  return
}
