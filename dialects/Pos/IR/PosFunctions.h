//===- PosFunctions.h - Functions of encodings ------------------*- C++ -*-===//
//
// An encoding takes part in the model around attention by functions
// (`func.func`) of `nn` and `pos` ops. A model builder calls those of five
// names without knowing the encoding: each argument and result has a role, by
// which the builder binds it. `private` functions of other names are helpers.
//
// | function           | is called               | sees            | gives    |
// |--------------------|-------------------------|-----------------|----------|
// | `@produce`         | before each attention   | positions,      | tensors  |
// |                    |                         | input, states   |          |
// | `@initial_state`   | before the first layer  | positions,      | states   |
// |                    |                         | input           |          |
// | `@after_attention` | after each attention    | positions,      | new      |
// |                    |                         | attention,      | states   |
// |                    |                         | weighted        |          |
// |                    |                         | states, states, |          |
// |                    |                         | tensors         |          |
// | `@after_mlp`       | after each MLP          | positions, mlp, | new      |
// |                    |                         | states, tensors | states   |
// | `@auxiliary_loss`  | in a training step,     | positions,      | a loss,  |
// |                    | after each layer        | states, tensors | to add   |
//
// All see options, parameters and inputs of the encoding, too. A role is the
// attribute `pos.role`:
//
// * "positions": i32 [1 or B, L, axes], the coordinates;
// * "input" [B, L, C]: what enters the projections of the block, normed; in
//   `@initial_state` what enters the first block;
// * "attention" [B, L, H d]: the output of attention before its projection;
// * "mlp" [B, L, C]: the output of the block's MLP;
// * any other: the option, parameter, input, state or produced tensor of this
//   name. A state or a produced tensor with the name of a parameter without
//   initial value fills it.
//
// or `pos.weighted`, the name of a state: what the probabilities of attention
// make of it. The state is then one more value operand of attention. An option
// that has the name of one of the model's tensors is asked for by `pos.option`.
//
// What sees nothing that each layer has of its own is called once for all
// layers. The rules, by which errors name them:
//
// F1 A function has one of the five names or is private, and has one block.
// F2 Arguments and results of a function that a model calls have a role, but
//    for the result of `@auxiliary_loss`; those of helpers have none.
// F3 The role is one that the table gives to the function; what it names exists
//    and has its type.
// F4 No two results fill one state, parameter or produced tensor.
// F5 Functions consist of ops of nn, pos, arith and tensor, of math on scalars,
//    of calls of helpers, which do not call themselves, and of `scf.if` and
//    `scf.for` that options and extents decide.
// F6 An op that makes tensors of floats of those of arguments has a derivative,
//    or stops gradients.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_DIALECTS_POS_IR_POSFUNCTIONS_H
#define SEXTANT_DIALECTS_POS_IR_POSFUNCTIONS_H

#include "dialects/Pos/IR/Pos.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SetVector.h"

namespace sextant::pos {

/// The attributes of an argument or a result that hold its role.
inline constexpr llvm::StringLiteral kRoleAttr = "pos.role";
inline constexpr llvm::StringLiteral kWeightedAttr = "pos.weighted";
inline constexpr llvm::StringLiteral kOptionAttr = "pos.option";

/// The functions of an encoding that a model calls.
enum class ModelFunction {
  Produce,
  InitialState,
  AfterAttention,
  AfterMlp,
  AuxiliaryLoss
};
inline constexpr llvm::StringLiteral kModelFunctions[] = {
    "produce", "initial_state", "after_attention", "after_mlp",
    "auxiliary_loss"};

/// What an argument or a result of such a function is.
enum class RoleKind { Positions, Input, Attention, Mlp, Weighted, Named };
inline constexpr llvm::StringLiteral kRoleKinds[] = {
    "positions", "input", "attention", "mlp", "weighted", "named"};

/// A role; `name` is that of a weighted state, or of what is named.
struct Role {
  RoleKind kind;
  mlir::StringAttr name;

  bool hasName() const {
    return kind == RoleKind::Weighted || kind == RoleKind::Named;
  }
};

/// The role of an argument or of a result, if it has one.
std::optional<Role> getArgumentRole(mlir::func::FuncOp function,
                                    unsigned number);
std::optional<Role> getResultRole(mlir::func::FuncOp function, unsigned number);

/// A function of an encoding that a model calls, or null.
mlir::func::FuncOp getFunction(EncodingOp encoding, ModelFunction which);

/// The names that an encoding's functions ask for by arguments and use.
llvm::SetVector<mlir::StringAttr> getArgumentNames(EncodingOp encoding);

/// What the results of a function are called.
llvm::SetVector<mlir::StringAttr> getResultNames(EncodingOp encoding,
                                                 ModelFunction which);

/// Verifies the functions of an encoding (F1 to F6).
mlir::LogicalResult verifyFunctions(EncodingOp encoding);

} // namespace sextant::pos

#endif // SEXTANT_DIALECTS_POS_IR_POSFUNCTIONS_H
