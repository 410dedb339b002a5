//===- PosFunctions.td - Ops of functions for a model -------------------------===//
//
// These ops stand in the functions by which an encoding takes part in a model
// (PosFunctions.h), beside those of the nn dialect.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_POS_FUNCTIONS_TD
#define SEXTANT_POS_FUNCTIONS_TD

include "dialects/Pos/IR/PosBase.td"

def Pos_DropoutOp : Pos_Op<"dropout", [AllTypesMatch<["input", "result"]>]> {
  let summary = "Dropout of a training";
  let description = [{
    In a function that draws, which a training step is, it becomes `nn.dropout`
    with that function's seed and step and with a place of its own wherever the
    encoding's function is called (`--pos-place-dropouts`); elsewhere it becomes
    its input. The probability is an option or a constant, in [0, 1). Two dropouts
    of one input draw apart: as if each allocated its mask, they are not the same
    expression.

    ```mlir
    %y = pos.dropout %x probability %p : tensor<?x?xf32>
    ```
  }];
  let arguments = (ins RankedTensorOf<[F32]>:$input, F32:$probability);
  let results = (outs Res<RankedTensorOf<[F32]>, "", [MemAlloc]>:$result);
  let assemblyFormat = "$input `probability` $probability attr-dict `:` type($input)";
  let hasFolder = 1;
}

#endif // SEXTANT_POS_FUNCTIONS_TD
