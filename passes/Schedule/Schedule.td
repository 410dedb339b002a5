//===- Schedule.td - From the model's ops to a list of instructions -----------===//
//
// These passes turn ops of a model into instructions of the runtime, and decide
// when tensors are overwritten and freed.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_PASSES_SCHEDULE_TD
#define SEXTANT_PASSES_SCHEDULE_TD

include "mlir/Pass/PassBase.td"

def FuseRowGathers : Pass<"pos-fuse-row-gathers", "::mlir::ModuleOp"> {
  let summary = "Take the rows of a table where they are mapped";
  let description = [{
    Where only `pos.map_rows` and `pos.map_rows_backward` use the rows [B, L, C]
    that an `nn.embedding` takes from its table, they take them themselves: the
    rows are neither stored nor held for the backward.

    ```mlir
    %e = nn.embedding %table, %tokens : (tensor<256x64xf32>, tensor<?x?xi64>) -> tensor<?x?x64xf32>
    %y = pos.map_rows %e of embedding : tensor<?x?x64xf32> -> tensor<?x?x64xf32>
    ```

    becomes

    ```mlir
    %y = pos.map_rows %table[%tokens] of embedding
      : tensor<256x64xf32>[tensor<?x?xi64>] -> tensor<?x?x64xf32>
    ```
  }];
  let statistics = [
    Statistic<"numFused", "gathers-fused", "Row maps that take their rows themselves">
  ];
  let dependentDialects = ["::sextant::pos::PosDialect"];
}

def RecomputeActivations : Pass<"nn-recompute-activations", "::mlir::ModuleOp"> {
  let summary = "Make cheap values of the forward again in the backward";
  let description = [{
    In the functions that derive from a loss, the backward repeats an op of the
    forward that costs one pass over its operands (elementwise functions,
    normalisations, copies in another order), where it reads its result first,
    if the operands live until then anyway. The forward then frees its own
    result: of an MLP only the input of its activation is kept. The bits of all
    results are the same.

    ```mlir
    %h = nn.gelu %x form tanh : (tensor<?x64xf32>) -> tensor<?x64xf32>
    %y = nn.linear %h, %w : (tensor<?x64xf32>, tensor<16x64xf32>) -> tensor<?x16xf32>
    %dw = nn.matmul %dyt, %h : (tensor<16x?xf32>, tensor<?x64xf32>) -> tensor<16x64xf32>
    %dx = nn.gelu_backward %dh, %x form tanh : (tensor<?x64xf32>, tensor<?x64xf32>) -> tensor<?x64xf32>
    ```

    where `%dyt` and `%dh` come from the loss, gets a second `nn.gelu %x` before
    `%dw`, which reads that. A value that the function gives back, or that only
    the backward reads, is left alone. So is what is small beside activations:
    the statistics of a normalisation, where the backward reads nothing else of
    it (a narrow copy of its result, say), and what is made of parameters alone,
    such as narrow weights.

    An op that evaluates a function such as gelu takes as long for an element as
    some hundred multiply-adds. Products with few columns do not cover that: of
    an MLP of width 128 it would be a tenth, so its results are kept where no
    product that reads them has `least-columns` columns, or an unknown number.
    A target says how many (`Capabilities`): products on tensor cores are over
    sooner beside a pass over memory, so there it takes more of them.
  }];
  let options = [
    Option<"leastColumns", "least-columns", "int64_t", /*default=*/"256",
           "Columns of a product beside which evaluating a function costs little">
  ];
  let statistics = [
    Statistic<"numRepeated", "ops-repeated", "Ops of the forward that the backward repeats">
  ];
}

def ConvertToExec : Pass<"nn-convert-to-exec", "::mlir::ModuleOp"> {
  let summary = "Replace nn ops by calls of ATen";
  let description = [{
    An `nn` op becomes the `exec.dense` that its definition describes
    (`AtenOpInterface`). An operator that can overwrite an operand does so when
    the operand's memory is read nowhere afterwards. A sum reads an addend that
    was widened to f32 for it as it was before: ATen widens its elements.

    What a function gives back under the mark of an argument (the new value of
    a parameter, its moments, the step) is written into that argument: the
    result is dropped and the argument gets `exec.updated`. Optimizers work in
    place. `nn.parameter` becomes `exec.parameter`, and arguments and results
    with marks get names (`exec.name`): `<parameter>`,
    `<parameter>:gradient`, `<parameter>:first_moment`,
    `<parameter>:second_moment`, `learning_rate`, `step`, `gradient_norm`.
  }];
  let statistics = [
    Statistic<"numCalls", "calls-made", "Ops that became calls of ATen">,
    Statistic<"numInPlace", "operands-overwritten", "Elementwise ops that overwrite an operand">
  ];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::func::FuncDialect",
    "::mlir::tensor::TensorDialect", "::sextant::exec::ExecDialect"
  ];
}

def OrderMemory : Pass<"exec-order-memory", "::mlir::ModuleOp"> {
  let summary = "Allocate tensors in the order in which they are read";
  let description = [{
    A tensor that launches share, and of which all other ops read one
    transposition that keeps the elements of rows together, is allocated
    transposed. Launches have a view of it: kernels address memory by strides.
    What ATen would copy, as to make rows of a model's width of the rows of
    heads, lies in memory as it wants it.

    ```mlir
    %o = exec.alloc(%b, %n) : tensor<?x12x?x64xf32>
    exec.launch @kernels::@attention_0_main reads(%q : tensor<?x12x?x64xf32>) writes(%o : tensor<?x12x?x64xf32>)
    %t = exec.dense "aten::transpose.int"(%o : tensor<?x12x?x64xf32>)
      arguments [#exec.tensor<0>, 1, 2] -> tensor<?x?x12x64xf32>
    ```

    becomes

    ```mlir
    %t = exec.alloc(%b, %n) : tensor<?x?x12x64xf32>
    %o = exec.view %t permuted [0, 2, 1, 3] sizes(%b, %n) : tensor<?x?x12x64xf32> -> tensor<?x12x?x64xf32>
    exec.launch @kernels::@attention_0_main reads(%q : tensor<?x12x?x64xf32>) writes(%o : tensor<?x12x?x64xf32>)
    ```
  }];
  let statistics = [
    Statistic<"numOrdered", "tensors-ordered", "Tensors allocated as they are read">
  ];
  let dependentDialects = ["::mlir::tensor::TensorDialect", "::sextant::exec::ExecDialect"];
}

def MergeCasts : Pass<"exec-merge-casts", "::mlir::ModuleOp"> {
  let summary = "Make one call of casts of many small tensors";
  let description = [{
    Casts between the same two types of floats that stand together, of tensors of
    known sizes with up to a million elements, become one `aten::_foreach_copy_` into
    new tensors. On a GPU that is a few launches in place of one per parameter,
    each of which takes longer than the elements of a bias or a small matrix.
    Larger tensors are cast one by one, so that each source can be freed before
    the next result is made.

    ```mlir
    %a = exec.dense "aten::_to_copy"(%w : tensor<8x8xf32>) arguments [#exec.tensor<0>, bf16] -> tensor<8x8xbf16>
    %b = exec.dense "aten::_to_copy"(%v : tensor<8xf32>) arguments [#exec.tensor<0>, bf16] -> tensor<8xbf16>
    ```

    becomes

    ```mlir
    %a = exec.alloc() : tensor<8x8xbf16>
    %b = exec.alloc() : tensor<8xbf16>
    exec.dense "aten::_foreach_copy_"(%a, %b, %w, %v : tensor<8x8xbf16>, tensor<8xbf16>, tensor<8x8xf32>, tensor<8xf32>)
      arguments [#exec.tensors<[0, 1]>, #exec.tensors<[2, 3]>, false]
    ```
  }];
  let statistics = [
    Statistic<"numMerged", "casts-merged", "Casts that joined another one">
  ];
  let dependentDialects = ["::sextant::exec::ExecDialect"];
}

def MergeLaunches : Pass<"exec-merge-launches", "::mlir::ModuleOp"> {
  let summary = "Make one launch of launches that do not wait for each other";
  let description = [{
    A launch is one level after the launches whose tensors it reads or
    overwrites. Neighbouring launches of one op that are of one level become one
    launch: its items are those of all, its kernel runs an item as the kernel
    that the item comes from. On a GPU each launch that depends on another costs
    microseconds, whatever it computes.

    ```mlir
    exec.launch @kernels::@attention_0_sin reads(%x : tensor<?xf32>) writes(%a : tensor<?xf32>)
    exec.launch @kernels::@attention_0_cos reads(%x : tensor<?xf32>) writes(%b : tensor<?xf32>)
    ```

    becomes

    ```mlir
    exec.launch @kernels::@attention_0_sin_and_cos
      reads(%x : tensor<?xf32>) writes(%a, %b : tensor<?xf32>, tensor<?xf32>)
    ```

    A launch that says what it costs stays alone, so that a profile shows it,
    and so does one whose kernel is more than one block over the words of its
    arguments.
  }];
  let statistics = [
    Statistic<"numMerged", "launches-merged", "Launches that joined another one">
  ];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::LLVM::LLVMDialect",
    "::mlir::scf::SCFDialect", "::sextant::exec::ExecDialect"
  ];
}

def ReleaseTensors : Pass<"exec-release-tensors", "::mlir::ModuleOp"> {
  let summary = "Release tensors after their last use";
  let description = [{
    Every tensor that a function makes is released after its last use and the
    last use of its views; what it returns, its arguments and constants are
    not. Sizes (`tensor.dim`) are read where a tensor is made, so that a size
    keeps no tensor alive.
  }];
  let statistics = [
    Statistic<"numReleased", "tensors-released", "Tensors released">
  ];
  let dependentDialects = ["::sextant::exec::ExecDialect"];
}

def VerifyInstructions : Pass<"exec-verify-instructions", "::mlir::ModuleOp"> {
  let summary = "Check that functions are lists of instructions";
  let description = [{
    Functions have one block of `exec`, `func` and `tensor.dim`, `tensor.cast`
    and `arith` ops; nothing reads a tensor after its release, a release drops
    what the function has made and does not give back, and drops it once.
  }];
}

#endif // SEXTANT_PASSES_SCHEDULE_TD
