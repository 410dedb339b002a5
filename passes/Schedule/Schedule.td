//===- Schedule.td - From the model's ops to a list of instructions -----------===//

#ifndef SEXTANT_PASSES_SCHEDULE_TD
#define SEXTANT_PASSES_SCHEDULE_TD

include "mlir/Pass/PassBase.td"

def NnToExec : Pass<"nn-to-exec", "::mlir::ModuleOp"> {
  let summary = "Replaces nn ops by calls of ATen";
  let description = [{
    An `nn` op becomes the `exec.dense` that its definition describes
    (`AtenOpInterface`). An operator that can overwrite an operand does so when
    the operand's memory is read nowhere afterwards.

    What a function gives back under the mark of an argument (the new value of
    a parameter, its moments, the step) is written into that argument: the
    result is dropped and the argument gets `exec.updated`. Optimizers work in
    place. `nn.parameter` becomes `exec.parameter`, and arguments and results
    with marks get names (`exec.name`): `<parameter>`,
    `<parameter>:gradient`, `<parameter>:first_moment`,
    `<parameter>:second_moment`, `learning_rate`, `step`, `gradient_norm`.
  }];
  let statistics = [
    Statistic<"numCalls", "num-calls", "Number of ops that became calls of ATen">,
    Statistic<"numInPlace", "num-in-place", "Number of elementwise ops that overwrite an operand">
  ];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::func::FuncDialect",
    "::mlir::tensor::TensorDialect", "::sextant::exec::ExecDialect"
  ];
}

def ExecRelease : Pass<"exec-release", "::mlir::ModuleOp"> {
  let summary = "Releases tensors after their last use";
  let description = [{
    Every tensor that a function makes is released after its last use and the
    last use of its views; what it returns, its arguments and constants are
    not. Sizes (`tensor.dim`) are read where a tensor is made, so that a size
    keeps no tensor alive.
  }];
  let statistics = [
    Statistic<"numReleased", "num-released", "Number of tensors released">
  ];
  let dependentDialects = ["::sextant::exec::ExecDialect"];
}

def ExecVerify : Pass<"exec-verify", "::mlir::ModuleOp"> {
  let summary = "Verifies that functions are lists of instructions";
  let description = [{
    Functions have one block of `exec`, `func` and `tensor.dim`, `tensor.cast`
    and `arith` ops; nothing reads a tensor after its release, a release drops
    what the function has made and does not give back, and drops it once.
  }];
}

#endif // SEXTANT_PASSES_SCHEDULE_TD
