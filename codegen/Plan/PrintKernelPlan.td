//===- PrintKernelPlan.td - What kernels are given, as text ------------------===//

#ifndef SEXTANT_CODEGEN_PRINTKERNELPLAN_TD
#define SEXTANT_CODEGEN_PRINTKERNELPLAN_TD

include "mlir/Pass/PassBase.td"

def PrintKernelPlan : Pass<"pos-print-kernel-plan", "::mlir::ModuleOp"> {
  let summary = "Print what the kernels of each op are given";
  let description = [{
    For every fused and hoisted op that owns sites, in order: the places in use,
    the form in which each hoisted value is kept, the tables that query rows are
    multiplied with, products with rows of offsets, piecewise-linear functions,
    scans, and the gradients that are wanted. It is what every target lowers
    from; nothing in it depends on one. Changes no IR:

    ```
    sextant-opt model.mlir --sextant-encoding-pipeline --pos-print-kernel-plan -o /dev/null
    ```
  }];
}

#endif // SEXTANT_CODEGEN_PRINTKERNELPLAN_TD
