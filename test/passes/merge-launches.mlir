// RUN: sextant-opt %s --exec-merge-launches --split-input-file | FileCheck %s
// RUN: sextant-opt %s --exec-merge-launches --exec-verify-instructions --split-input-file | FileCheck %s
// RUN: sextant-opt %s --exec-merge-launches --split-input-file --remarks-filter=exec-merge-launches -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// Launches that read the same are one launch, and what reads the result of one
// of them comes after it: 'sum' waits for 'fill' only. Operands that parts share
// are there once. A launch that says what it costs stays alone.
// REMARK: [Missed] not-merged | Category:exec-merge-launches | {{.*}}a_main{{.*}}a profile shows its costs
// REMARK: [Passed] merged | Category:exec-merge-launches | Launches=1
// CHECK-LABEL: func @levels
// CHECK-SAME:  (%[[X:.+]]: tensor<?xf32>, %[[N:.+]]: index)
// CHECK:       %[[A:.+]] = exec.alloc
// CHECK:       %[[B:.+]] = exec.alloc
// CHECK:       %[[C:.+]] = exec.alloc
// CHECK-NOT:   exec.launch @kernels::@a_fill reads
// CHECK:       exec.launch @kernels::@a_main {{.*}} flops
// CHECK:       exec.launch @kernels::@a_fill_and_copy
// CHECK-SAME:    reads(%[[X]] : tensor<?xf32>)
// CHECK-SAME:    writes(%[[A]], %[[C]] : tensor<?xf32>, tensor<?xf32>) scalars(%[[N]])
// CHECK:       exec.launch @kernels::@a_sum reads(%[[A]] : tensor<?xf32>)
func.func @levels(%x: tensor<?xf32>, %n: index) -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) {
  %a = exec.alloc(%n) : tensor<?xf32>
  exec.launch @kernels::@a_fill reads(%x : tensor<?xf32>) writes(%a : tensor<?xf32>) scalars(%n) loc("op")
  %b = exec.alloc(%n) : tensor<?xf32>
  %c = exec.alloc(%n) : tensor<?xf32>
  %d = exec.alloc(%n) : tensor<?xf32>
  exec.launch @kernels::@a_sum reads(%a : tensor<?xf32>) writes(%b : tensor<?xf32>) loc("op")
  exec.launch @kernels::@a_main reads(%x : tensor<?xf32>) writes(%d : tensor<?xf32>) flops(%n) loc("op")
  exec.launch @kernels::@a_copy reads(%x : tensor<?xf32>) writes(%c : tensor<?xf32>) scalars(%n) loc("op")
  return %a, %b, %c : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>
}

// The words of both parts are those of the merged block: the reads (address,
// size, stride), the writes, the scalar. Items of the second part follow those
// of the first. What nobody launches any more is gone.
// CHECK-LABEL: module @kernels
// CHECK-NOT:   @a_fill(
// CHECK-NOT:   @a_copy
// CHECK:       llvm.func @a_fill_and_copy_items(%[[ARGS:.+]]: !llvm.ptr) -> i64
// CHECK:         llvm.getelementptr inbounds %[[ARGS]][9]
// CHECK:         llvm.getelementptr inbounds %[[ARGS]][9]
// CHECK:         arith.addi
// CHECK:       llvm.func @a_fill_and_copy_scratch
// CHECK:         arith.maxsi
// CHECK:       llvm.func @a_fill_and_copy(
// CHECK:         llvm.call @a_fill_and_copy_range
// CHECK:       llvm.func internal @a_fill_and_copy_range(%[[ARGS:.+]]: !llvm.ptr, %[[BEGIN:.+]]: i64, %[[END:.+]]: i64, %[[SCRATCH:.+]]: !llvm.ptr)
// CHECK:         %[[ITEMS:.+]] = llvm.load
// CHECK:         %[[FIRST:.+]] = arith.maxsi %[[BEGIN]]
// CHECK:         %[[LAST:.+]] = arith.minsi %[[END]], %[[ITEMS]]
// CHECK:         %[[ANY:.+]] = arith.cmpi slt, %[[FIRST]], %[[LAST]]
// CHECK:         scf.if %[[ANY]] {
// CHECK:           llvm.getelementptr inbounds %[[ARGS]][3]
// CHECK:           scf.for %{{.+}} = %[[FIRST]] to %[[LAST]]
// CHECK:         %[[REST:.+]] = arith.subi %[[BEGIN]], %[[ITEMS]]
// CHECK:         scf.if
// CHECK:           llvm.getelementptr inbounds %[[ARGS]][6]
module @kernels {
  llvm.func internal @a_fill_range(%args: !llvm.ptr, %begin: i64, %end: i64, %scratch: !llvm.ptr) {
    %one = llvm.mlir.constant(1 : i64) : i64
    %at = llvm.getelementptr inbounds %args[3] : (!llvm.ptr) -> !llvm.ptr, i64
    %to = llvm.load %at : !llvm.ptr -> !llvm.ptr
    scf.for %i = %begin to %end step %one : i64 {
      llvm.store %i, %to : i64, !llvm.ptr
    }
    llvm.return
  }
  llvm.func @a_fill(%args: !llvm.ptr, %begin: i64, %end: i64, %scratch: !llvm.ptr) {
    llvm.call @a_fill_range(%args, %begin, %end, %scratch) : (!llvm.ptr, i64, i64, !llvm.ptr) -> ()
    llvm.return
  }
  llvm.func @a_fill_items(%args: !llvm.ptr) -> i64 {
    %at = llvm.getelementptr inbounds %args[6] : (!llvm.ptr) -> !llvm.ptr, i64
    %n = llvm.load %at : !llvm.ptr -> i64
    llvm.return %n : i64
  }
  llvm.func @a_fill_scratch(%args: !llvm.ptr) -> i64 {
    %none = llvm.mlir.constant(0 : i64) : i64
    llvm.return %none : i64
  }
  llvm.func internal @a_copy_range(%args: !llvm.ptr, %begin: i64, %end: i64, %scratch: !llvm.ptr) {
    %at = llvm.getelementptr inbounds %args[3] : (!llvm.ptr) -> !llvm.ptr, i64
    %to = llvm.load %at : !llvm.ptr -> !llvm.ptr
    llvm.store %begin, %to : i64, !llvm.ptr
    llvm.return
  }
  llvm.func @a_copy(%args: !llvm.ptr, %begin: i64, %end: i64, %scratch: !llvm.ptr) {
    llvm.call @a_copy_range(%args, %begin, %end, %scratch) : (!llvm.ptr, i64, i64, !llvm.ptr) -> ()
    llvm.return
  }
  llvm.func @a_copy_items(%args: !llvm.ptr) -> i64 {
    %at = llvm.getelementptr inbounds %args[6] : (!llvm.ptr) -> !llvm.ptr, i64
    %n = llvm.load %at : !llvm.ptr -> i64
    llvm.return %n : i64
  }
  llvm.func @a_copy_scratch(%args: !llvm.ptr) -> i64 {
    %some = llvm.mlir.constant(64 : i64) : i64
    llvm.return %some : i64
  }
}

// -----

// A kernel that hands its argument block to somebody stays alone, and so does
// the other, since there is nobody to join. A launch does not move past one of
// another op, nor past a call of ATen.
// REMARK: [Missed] not-merged | Category:exec-merge-launches | {{.*}}does more with its arguments than to load them
// REMARK: [Passed] merged | Category:exec-merge-launches | Launches=0
// CHECK-LABEL: func @apart
// CHECK:       exec.launch @kernels::@b_calls
// CHECK:       exec.launch @kernels::@b_plain
// CHECK:       exec.dense
// CHECK:       exec.launch @kernels::@b_plain
// CHECK:       exec.launch @kernels::@b_plain
func.func @apart(%x: tensor<4xf32>, %a: tensor<4xf32>, %b: tensor<4xf32>) {
  exec.launch @kernels::@b_calls reads(%x : tensor<4xf32>) writes(%a : tensor<4xf32>) loc("op")
  exec.launch @kernels::@b_plain reads(%x : tensor<4xf32>) writes(%b : tensor<4xf32>) loc("op")
  exec.dense "aten::neg_"(%x : tensor<4xf32>) arguments [#exec.tensor<0>]
  exec.launch @kernels::@b_plain reads(%x : tensor<4xf32>) writes(%a : tensor<4xf32>) loc("op")
  exec.launch @kernels::@b_plain reads(%x : tensor<4xf32>) writes(%b : tensor<4xf32>) loc("other")
  return
}
module @kernels {
  llvm.func @b_use(!llvm.ptr)
  llvm.func @b_calls(%args: !llvm.ptr, %begin: i64, %end: i64, %scratch: !llvm.ptr) {
    llvm.call @b_use(%args) : (!llvm.ptr) -> ()
    llvm.return
  }
  llvm.func @b_calls_items(%args: !llvm.ptr) -> i64 {
    %n = llvm.mlir.constant(1 : i64) : i64
    llvm.return %n : i64
  }
  llvm.func @b_calls_scratch(%args: !llvm.ptr) -> i64 {
    %n = llvm.mlir.constant(0 : i64) : i64
    llvm.return %n : i64
  }
  llvm.func @b_plain(%args: !llvm.ptr, %begin: i64, %end: i64, %scratch: !llvm.ptr) {
    llvm.return
  }
  llvm.func @b_plain_items(%args: !llvm.ptr) -> i64 {
    %n = llvm.mlir.constant(1 : i64) : i64
    llvm.return %n : i64
  }
  llvm.func @b_plain_scratch(%args: !llvm.ptr) -> i64 {
    %n = llvm.mlir.constant(0 : i64) : i64
    llvm.return %n : i64
  }
}
