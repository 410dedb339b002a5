//===- NnRandom.td - Dropout --------------------------------------------------===//
//
// What is random in a model is a pure function of a seed, the step of training
// and the place in the model, so that a run that is resumed draws the same.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_NN_RANDOM_TD
#define SEXTANT_NN_RANDOM_TD

include "dialects/Nn/IR/NnBase.td"

/// A counter: tensor<i64>, which an assembly format need not spell.
def Nn_Counter : Type<0DTensorOf<[I64]>.predicate, "0D tensor of 64-bit integer",
                      "::mlir::RankedTensorType">,
    BuildableType<"::mlir::RankedTensorType::get({}, $_builder.getI64Type())">;

def Nn_DropoutOp : Nn_Op<"dropout", [Pure, AllTypesMatch<["input", "result"]>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "Elements set to 0 at random, the others enlarged";
  let description = [{
    Each element becomes 0 with the given probability, else it is divided by 1 -
    probability (Srivastava et al. 2014). Whether it is kept depends on `seed`,
    `step` (0 .. 2^32 - 1), `place` and the number of the element, and on nothing
    else. Two dropouts of one function need two places unless they are to agree;
    the derivative is the same op on the gradient, so no mask is kept. Stands for
    `aten::bernoulli.p` with a generator that the runtime makes of the three
    numbers (`runtime/torch/RandomOperators.cpp`; on a GPU `exec-draw-masks` makes
    a launch of it, with the same bits) and two products.

    ```mlir
    %y = nn.dropout %x probability 1.000000e-01 seed(%seed) step(%step) place 3
      : tensor<?x?x64xf32>
    ```
  }];
  let arguments = (ins Nn_Tensor:$input, Nn_Counter:$seed, Nn_Counter:$step,
                       F64Attr:$probability, I64Attr:$place);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat = [{ $input `probability` $probability `seed` `(` $seed `)`
    `step` `(` $step `)` `place` $place attr-dict `:` type($input) }];
  let hasFolder = 1;
  let hasVerifier = 1;
}

#endif // SEXTANT_NN_RANDOM_TD
