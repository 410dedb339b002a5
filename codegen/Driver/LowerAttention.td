//===- LowerAttention.td - From attention to launches of kernels --------------===//

#ifndef SEXTANT_CODEGEN_LOWERATTENTION_TD
#define SEXTANT_CODEGEN_LOWERATTENTION_TD

include "mlir/Pass/PassBase.td"

def LowerAttention : Pass<"pos-lower-attention", "::mlir::ModuleOp"> {
  let summary = "Replace attention and row maps by launches of kernels";
  let description = [{
    Every fused and hoisted `pos.attention`, `pos.attention_backward`,
    `pos.map_rows` and `pos.map_rows_backward` becomes allocations and launches
    of kernels that the target writes into the nested module `@kernels`. Ops of
    the same structure (the layers of a model) share their kernels.

    What a target cannot compute is an error that names the op.

    With `check-reads` every attention and row map is preceded by a launch that
    runs the payloads literally, whatever the target, and by a check of the
    indices at which each read asks for elements: of all rows, and of the scores
    that a query sees. It costs as much as the reference.
  }];
  let options = [
    Option<"target", "target", "std::string", "\"cpu\"",
           "A name in the table of targets, or cpu">,
    Option<"checkReads", "check-reads", "bool", "false",
           "Stop a call whose payloads read outside of a parameter">
  ];
  let statistics = [
    Statistic<"numLowered", "ops-lowered", "Ops replaced by launches">,
    Statistic<"numShared", "kernels-shared", "Ops that share their kernels with an earlier one">
  ];
  let dependentDialects = [
    "::mlir::LLVM::LLVMDialect", "::mlir::arith::ArithDialect",
    "::mlir::func::FuncDialect", "::mlir::math::MathDialect",
    "::mlir::scf::SCFDialect", "::mlir::tensor::TensorDialect",
    "::mlir::vector::VectorDialect", "::sextant::exec::ExecDialect"
  ];
}

def DrawMasks : Pass<"exec-draw-masks", "::mlir::ModuleOp"> {
  let summary = "Replace random masks by launches of kernels";
  let description = [{
    For targets whose memory is not the host's. There every `aten::bernoulli.p`
    with a generator of three numbers becomes the launch of a kernel that reads
    them where they are, and gives the bits that the runtime draws on a host.
    Whether the step fits is checked as data are: nobody waits.
  }];
  let options = [
    Option<"target", "target", "std::string", "\"cpu\"",
           "A name in the table of targets, or cpu">
  ];
  let statistics = [Statistic<"numDrawn", "masks-drawn", "Masks that a kernel draws">];
  let dependentDialects = [
    "::mlir::LLVM::LLVMDialect", "::mlir::arith::ArithDialect",
    "::mlir::math::MathDialect", "::mlir::scf::SCFDialect",
    "::mlir::tensor::TensorDialect", "::mlir::vector::VectorDialect",
    "::sextant::exec::ExecDialect"
  ];
}

#endif // SEXTANT_CODEGEN_LOWERATTENTION_TD
