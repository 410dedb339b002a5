//===- NnParameter.td - Parameters of a model ---------------------------------===//
//
// A parameter of a model is declared beside its functions, with its initial
// value, its bounds, and what the optimizer does with it.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_NN_PARAMETER_TD
#define SEXTANT_NN_PARAMETER_TD

include "dialects/Nn/IR/NnBase.td"

def Nn_Init : I32EnumAttr<"Init", "distribution of initial values", [
    I32EnumAttrCase<"given", 0>, I32EnumAttrCase<"constant", 1>,
    I32EnumAttrCase<"normal", 2>, I32EnumAttrCase<"uniform", 3>]> {
  let cppNamespace = "::sextant::nn";
  let genSpecializedAttr = 0;
}
def Nn_InitAttr : EnumAttr<Nn_Dialect, Nn_Init, "init"> {
  let assemblyFormat = "$value";
}

def Nn_ParameterOp : Nn_Op<"parameter"> {
  let summary = "A parameter of the model";
  let description = [{
    Stands in the module; arguments of functions name it by the attribute
    `nn.parameter`. `init` is `constant [c]`, `normal [mean, deviation]`,
    `uniform [low, high]` or `given`, with `values` if the program brings them.
    `frozen` parameters are not trained, `decay` ones are decayed by the
    optimizer (`group` names settings of it: `#nn.group`), `floor` and `ceiling` bound the values after initialisation and
    after each optimizer step.

    ```mlir
    nn.parameter "layers.0.attention.bias.r1" : tensor<4xf32> init uniform [0.0, 2.0] floor 0.01
    ```
  }];
  let arguments = (ins StrAttr:$name, TypeAttrOf<Nn_Tensor>:$type, Nn_InitAttr:$init,
    OptionalAttr<F64ArrayAttr>:$initArgs, OptionalAttr<ElementsAttr>:$values,
    UnitAttr:$frozen, UnitAttr:$decay, OptionalAttr<StrAttr>:$group, OptionalAttr<F64Attr>:$floor,
    OptionalAttr<F64Attr>:$ceiling);
  let assemblyFormat = [{
    $name `:` $type `init` $init ($initArgs^)? (`values` $values^)?
    (`frozen` $frozen^)? (`decay` $decay^)? (`group` $group^)? (`floor` $floor^)?
    (`ceiling` $ceiling^)? attr-dict
  }];
  let hasVerifier = 1;
}

#endif // SEXTANT_NN_PARAMETER_TD
