//===- NnOptimizer.td - Norms of gradients and AdamW --------------------------===//
//
// These ops make up the update of a training step: the norm by which gradients
// are clipped, and AdamW.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_NN_OPTIMIZER_TD
#define SEXTANT_NN_OPTIMIZER_TD

include "dialects/Nn/IR/NnBase.td"

def Nn_GlobalNormOp : Nn_Op<"global_norm", [Pure]> {
  let summary = "Euclidean norm of all elements of some tensors";
  let description = [{
    Stands for `aten::dot` of each flattened tensor with itself (small ones are
    joined before, by `aten::cat`), `aten::stack`, `aten::sum` and `aten::sqrt`.

    ```mlir
    %n = nn.global_norm %a, %b : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<f32>
    ```
  }];
  let arguments = (ins Variadic<Nn_Tensor>:$tensors);
  let results = (outs Nn_Scalar:$result);
  let assemblyFormat = "$tensors attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

class Nn_TypesOfParams<string name>
    : RangedTypesMatchWith<"types of " # name # " match those of the parameters",
                           "params", name, "$_self">;

def Nn_AdamWOp : Nn_Op<"adamw", [Pure, AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<InferTypeOpInterface>, Nn_TypesOfParams<"gradients">,
    Nn_TypesOfParams<"firstMoments">, Nn_TypesOfParams<"secondMoments">]> {
  let summary = "One step of AdamW for some parameters";
  let description = [{
    Decoupled weight decay (Loshchilov and Hutter 2019), as in
    `torch.optim.AdamW`; `step` counts from 1. Gradients are divided by
    `gradient_scale`, if given: that is how they are clipped. Results: the new
    parameters, first moments and second moments. Stands for `aten::_fused_adamw_.tensor_lr`, which
    works in place.

    ```mlir
    %p1, %m1, %v1 = nn.adamw (%p) gradients(%g) moments(%m), (%v) step %step rate %lr
      decay 1.000000e-01 betas [9.000000e-01, 9.500000e-01] epsilon 1.000000e-08
      : (tensor<8xf32>), tensor<f32>, tensor<f32>
    ```
  }];
  let arguments = (ins Variadic<Nn_Tensor>:$params, Variadic<Nn_Tensor>:$gradients,
    Variadic<Nn_Tensor>:$firstMoments, Variadic<Nn_Tensor>:$secondMoments,
    Nn_Scalar:$step, Nn_Scalar:$rate, Optional<Nn_Scalar>:$gradientScale,
    F64Attr:$decay, F64ArrayAttr:$betas, F64Attr:$epsilon);
  let results = (outs Variadic<Nn_Tensor>:$updated);
  let extraClassDeclaration = [{
    ::mlir::ResultRange getNewParams() { return getUpdatedGroup(0); }
    ::mlir::ResultRange getNewFirstMoments() { return getUpdatedGroup(1); }
    ::mlir::ResultRange getNewSecondMoments() { return getUpdatedGroup(2); }
    ::mlir::ResultRange getUpdatedGroup(unsigned group) {
      size_t count = getParams().size();
      return getUpdated().slice(group * count, count);
    }
  }];
  let assemblyFormat = [{
    `(` $params `)` `gradients` `(` $gradients `)` `moments` `(` $firstMoments `)`
    `,` `(` $secondMoments `)` `step` $step `rate` $rate
    (`gradient_scale` $gradientScale^)? `decay` $decay `betas` $betas
    `epsilon` $epsilon attr-dict `:` `(` type($params) `)` `,` type($step) `,`
    type($rate) (`,` type($gradientScale)^)?
  }];
  let hasVerifier = 1;
}

def Nn_GroupAttr : AttrDef<Nn_Dialect, "Group"> {
  let mnemonic = "group";
  let summary = "settings of the optimizer for some parameters";
  let description = [{
    For parameters of the group of that name: their learning rate is `rate`
    times that of the step; `decay`, if given, is their weight decay; with
    `clip` their gradients are clipped by themselves to that global norm (0: not
    at all), and are no part of the norm by which others are clipped.

    ```mlir
    #nn.group<"encoder" rate = 0.5 decay = 0.0 clip = 5.0>
    ```
  }];
  let parameters = (ins "::mlir::StringAttr":$name, "::mlir::FloatAttr":$rate,
    OptionalParameter<"::mlir::FloatAttr">:$decay,
    OptionalParameter<"::mlir::FloatAttr">:$clip);
  let assemblyFormat = [{ `<` $name `rate` `=` $rate (`decay` `=` $decay^)?
    (`clip` `=` $clip^)? `>` }];
}

def Nn_AdamWAttr : AttrDef<Nn_Dialect, "AdamW"> {
  let mnemonic = "adamw";
  let summary = "how a loss is minimised by AdamW";
  let description = [{
    An attribute `nn.optimizer` of a loss. `update` and `train_step` name the
    functions that `--nn-derive-backward` adds: `update` takes the parameters and
    their gradients (which may have been accumulated), `train_step` what the
    loss takes; both then the learning rate, the number of the step (from 1)
    and the moments, and give the new parameters and moments. Gradients are
    clipped to the global norm `clip` (0: not at all). Parameters that an
    `nn.parameter` marks `decay` are decayed. `groups` are settings for the
    parameters that name them.

    ```mlir
    #nn.adamw<beta1 = 0.9, beta2 = 0.95, epsilon = 1.0e-8, decay = 0.1, clip = 1.0, update = @update, train_step = @train_step>
    ```
  }];
  let parameters = (ins "::mlir::FloatAttr":$beta1, "::mlir::FloatAttr":$beta2,
    "::mlir::FloatAttr":$epsilon, "::mlir::FloatAttr":$decay,
    "::mlir::FloatAttr":$clip, OptionalArrayRefParameter<"GroupAttr">:$groups,
    "::mlir::FlatSymbolRefAttr":$update, "::mlir::FlatSymbolRefAttr":$trainStep);
  let assemblyFormat = [{ `<` `beta1` `=` $beta1 `,` `beta2` `=` $beta2 `,`
    `epsilon` `=` $epsilon `,` `decay` `=` $decay `,` `clip` `=` $clip `,`
    (`groups` `=` `[` $groups^ `]` `,`)? `update` `=` $update `,` `train_step` `=` $trainStep `>` }];
}

#endif // SEXTANT_NN_OPTIMIZER_TD
