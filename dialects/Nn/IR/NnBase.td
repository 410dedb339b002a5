//===- NnBase.td - The nn dialect and its base classes ------------------------===//
//
// All ops of the nn dialect share these base classes. An op that is one call of
// ATen derives from Nn_AtenOp, which describes the call in one line.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_NN_BASE_TD
#define SEXTANT_NN_BASE_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "dialects/Interfaces/DifferentiableOpInterface.td"
include "dialects/Interfaces/ProductOpInterface.td"
include "dialects/Nn/IR/NnInterfaces.td"

def Nn_Dialect : Dialect {
  let name = "nn";
  let cppNamespace = "::sextant::nn";
  let summary = "The dense ops around attention";
  let description = [{
    What a decoder transformer is made of besides `pos.attention`. An op is one
    ATen operator, or the few that its text says it stands for: its definition
    holds the operator's name, how its arguments are made from the op's
    (`AtenOpInterface`), and its derivative, if it has one, written in other `nn`
    ops (`DifferentiableOpInterface`). Values are tensors; dimensions
    may be dynamic (`?`); nothing is updated in place before `--nn-convert-to-exec`.

    A **parameter** is an `nn.parameter` of the module, which holds its initial
    values and how it is trained. Functions take parameters as arguments that
    carry its name:

    ```mlir
    nn.parameter "head.weight" : tensor<256x64xf32> init normal [0.0, 0.02] decay

    func.func @logits(%x: tensor<?x?x64xf32>,
                      %w: tensor<256x64xf32> {nn.parameter = "head.weight"})
        -> tensor<?x?x256xf32> {
      %y = nn.linear %x, %w : (tensor<?x?x64xf32>, tensor<256x64xf32>) -> tensor<?x?x256xf32>
      return %y : tensor<?x?x256xf32>
    }
    ```

    A **loss** is a function with `nn.gradients = @name`, whose first result is
    a `tensor<f32>`: `--nn-derive-backward` adds a function of that name which also
    returns the gradients of its trained parameters. With `nn.optimizer` it adds
    the functions that update the parameters as well (`#nn.adamw`). A function with
    `nn.products = bf16` multiplies in that type (`--nn-narrow-products`).
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::tensor::TensorDialect"];
  let useDefaultAttributePrinterParser = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
}

def Nn_Tensor : RankedTensorOf<[F32, F64, BF16, F16]>;
def Nn_Number : RankedTensorOf<[F32, F64, BF16, F16, I32, I64]>;
/// Numbers, or conditions (i1).
def Nn_Any : RankedTensorOf<[F32, F64, BF16, F16, I32, I64, I1]>;
def Nn_Condition : RankedTensorOf<[I1]>;
def Nn_Scalar : 0DTensorOf<[F32, F64]>;
def Nn_Integers : RankedTensorOf<[I32, I64]>;
def Nn_Labels : 1DTensorOf<[I64]>;

/// No gradient passes through the op.
def Nn_StopsGradients : NativeOpTrait<"StopsGradients"> {
  let cppNamespace = "::sextant::nn";
}

/// One pass over the operands makes the results: little beside a product.
def Nn_CheapToRepeat : NativeOpTrait<"CheapToRepeat"> {
  let cppNamespace = "::sextant::nn";
}

/// Each element takes a polynomial, or several: some ten times as long as a sum.
def Nn_EvaluatesFunction : NativeOpTrait<"EvaluatesFunction"> {
  let cppNamespace = "::sextant::nn";
}

/// Elements are moved, or become functions of themselves: as well of a narrow type
/// as of f32.
def Nn_FollowsElements : NativeOpTrait<"FollowsElements"> {
  let cppNamespace = "::sextant::nn";
}

class Nn_Op<string mnemonic, list<Trait> traits = []>
    : Op<Nn_Dialect, mnemonic, traits>;

/// An op that is one call of ATen. `call` lists calls on `AtenArguments`, one
/// per argument of the operator's schema. An operator with `inPlaceName` can
/// write its first result over operand number `overwrites`.
class Nn_AtenOp<string mnemonic, string aten, list<string> call,
                list<Trait> traits = []>
    : Nn_Op<mnemonic, traits # [Pure,
        DeclareOpInterfaceMethods<InferTypeOpInterface>,
        DeclareOpInterfaceMethods<Nn_AtenOpInterface, ["getInPlaceForm", "isView"]>]> {
  string inPlaceName = "";
  int overwrites = 0;
  bit appendsOut = 0;
  /// Whether the result may share memory with the first operand.
  bit view = 0;
  string atenArguments = !foldl("", call, text, argument,
                                text # "\n  arguments." # argument # ";");
  let extraClassDeclaration = [{
    static ::llvm::LogicalResult inferReturnTypes(
        ::mlir::MLIRContext *context, ::std::optional<::mlir::Location> location,
        Adaptor adaptor, ::llvm::SmallVectorImpl<::mlir::Type> &types);
  }];
  let extraClassDefinition = [{
    ::llvm::StringRef $cppClass::getAtenName() { return "}] # aten # [{"; }
    void $cppClass::buildAtenArguments(::sextant::nn::AtenArguments &arguments) {}]
    # atenArguments # [{
    }
    ::sextant::nn::InPlaceForm $cppClass::getInPlaceForm() {
      return {"}] # inPlaceName # [{", }] # overwrites # [{, }]
    # !if(appendsOut, "true", "false") # [{};
    }
    bool $cppClass::isView() { return }] # !if(view, "true", "false") # [{; }
    ::llvm::LogicalResult $cppClass::inferReturnTypes(
        ::mlir::MLIRContext *context, ::std::optional<::mlir::Location> location,
        ::mlir::ValueRange operands, ::mlir::DictionaryAttr attributes,
        ::mlir::OpaqueProperties properties, ::mlir::RegionRange regions,
        ::llvm::SmallVectorImpl<::mlir::Type> &types) {
      return inferReturnTypes(context, location,
                              Adaptor(operands, attributes, properties, regions), types);
    }
  }];
}

#endif // SEXTANT_NN_BASE_TD
