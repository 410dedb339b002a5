// y = 2 x by a kernel, then x + y and its transpose by views.
module @kernels {
  // out[i, :] = 2 in[i, :]; an item is a row.
  func.func @double_rows(%args: !llvm.ptr, %begin: i64, %end: i64, %scratch: !llvm.ptr) {
    %c1 = llvm.mlir.constant(1 : i64) : i64
    %c0 = llvm.mlir.constant(0 : i64) : i64
    %in_word = llvm.load %args : !llvm.ptr -> i64
    %cols_ptr = llvm.getelementptr %args[2] : (!llvm.ptr) -> !llvm.ptr, i64
    %cols = llvm.load %cols_ptr : !llvm.ptr -> i64
    %s0_ptr = llvm.getelementptr %args[3] : (!llvm.ptr) -> !llvm.ptr, i64
    %s0 = llvm.load %s0_ptr : !llvm.ptr -> i64
    %s1_ptr = llvm.getelementptr %args[4] : (!llvm.ptr) -> !llvm.ptr, i64
    %s1 = llvm.load %s1_ptr : !llvm.ptr -> i64
    %out_ptr = llvm.getelementptr %args[5] : (!llvm.ptr) -> !llvm.ptr, i64
    %out_word = llvm.load %out_ptr : !llvm.ptr -> i64
    %t0_ptr = llvm.getelementptr %args[8] : (!llvm.ptr) -> !llvm.ptr, i64
    %t0 = llvm.load %t0_ptr : !llvm.ptr -> i64
    %in = llvm.inttoptr %in_word : i64 to !llvm.ptr
    %out = llvm.inttoptr %out_word : i64 to !llvm.ptr
    scf.for %i = %begin to %end step %c1 : i64 {
      scf.for %j = %c0 to %cols step %c1 : i64 {
        %a = llvm.mul %i, %s0 : i64
        %b = llvm.mul %j, %s1 : i64
        %from = llvm.add %a, %b : i64
        %p = llvm.getelementptr %in[%from] : (!llvm.ptr, i64) -> !llvm.ptr, f32
        %x = llvm.load %p : !llvm.ptr -> f32
        %y = llvm.fadd %x, %x : f32
        %c = llvm.mul %i, %t0 : i64
        %to = llvm.add %c, %j : i64
        %q = llvm.getelementptr %out[%to] : (!llvm.ptr, i64) -> !llvm.ptr, f32
        llvm.store %y, %q : f32, !llvm.ptr
      }
    }
    return
  }
  func.func @double_rows_items(%args: !llvm.ptr) -> i64 {
    %p = llvm.getelementptr %args[1] : (!llvm.ptr) -> !llvm.ptr, i64
    %rows = llvm.load %p : !llvm.ptr -> i64
    return %rows : i64
  }
  func.func @double_rows_scratch(%args: !llvm.ptr) -> i64 {
    %c = llvm.mlir.constant(128 : i64) : i64
    return %c : i64
  }
}

exec.parameter "w" : tensor<4xf32> init uniform [0.0, 2.0] floor 0.5 {decay = false}
exec.parameter "b" : tensor<2xf32> init given values dense<[1.0, -1.0]> : tensor<2xf32> frozen

func.func @double(
    %x: tensor<?x?xf32> {exec.name = "x", exec.dims = ["rows", "columns"]},
    %like: tensor<?xf32> {exec.name = "like", exec.dims = ["columns"]})
    -> (tensor<?x?xf32> {exec.name = "doubled"}, tensor<?x?xf32> {exec.name = "transposed"}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %rows = tensor.dim %x, %c0 : tensor<?x?xf32>
  %columns = tensor.dim %x, %c1 : tensor<?x?xf32>
  %limit = arith.constant 1000 : index
  exec.check %rows at_most %limit, "too many rows"
  %flops = arith.muli %rows, %columns : index
  %y = exec.alloc(%rows, %columns) : tensor<?x?xf32>
  exec.launch @kernels::@double_rows reads(%x : tensor<?x?xf32>) writes(%y : tensor<?x?xf32>) flops(%flops) loc("double")
  %t = exec.view %y permuted [1, 0] sizes(%columns, %rows) : tensor<?x?xf32> -> tensor<?x?xf32>
  return %y, %t : tensor<?x?xf32>, tensor<?x?xf32>
}
