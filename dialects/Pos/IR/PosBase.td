//===- PosBase.td - The pos dialect and its base classes ----------------------===//
//
// This file defines the pos dialect, with the numeric contract C1 to C10 that
// verifiers, kernels and tests cite.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_POS_BASE_TD
#define SEXTANT_POS_BASE_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"

def Pos_Dialect : Dialect {
  let name = "pos";
  let cppNamespace = "::sextant::pos";
  let summary = "Attention and the positional encodings that act in and around it";
  let description = [{
    A positional encoding acts at a few fixed *places* of attention. The places
    are ops of this dialect, a closed set that kernels know. An encoding is
    data (`pos.encoding`), an open set that no pass and no kernel knows by name.

    Numeric contract, cited by number in verifiers and tests:

    * **C1** Payloads compute in the compute type: f32 in kernels, f64 in the
      float64 reference. `f32` in a definition means the compute type; no other
      float type appears in a definition.
    * **C2** Order: row maps and columns, product, scale, score payloads in the
      order of the list, masks, softmax.
    * **C3** A score payload sees the scaled score in natural-log units.
    * **C4** A mask payload yields true for a visible key. A row that sees no
      key gives zeros and a log-sum-exp of minus infinity.
    * **C5** `pos.offset` is the key's coordinate minus the query's.
    * **C6** A row map works on lanes [begin, end) of a row in groups: `single`
      (one lane), `half` (lane t with lane t + n/2 of the n lanes of the range),
      `interleaved` (lane 2t with lane 2t + 1) or `whole` (all lanes at once).
      `pos.lane` is t, counted inside the range; for `whole` there is no lane.
    * **C7** A kernel's error is at most twice that of plain PyTorch for the same
      op in the same type, plus 1e-6 of the tensor's largest magnitude, or of 1
      if that is larger; gradients included. Results of bf16 or f16 may be off by
      the one rounding that stores them besides. Errors are the largest
      differences from float64 on the same operands, of a tensor, or of each row
      where operands of products have 16 bits (kernels that convert rows of bf16
      or f16 and compute in f32 are held to f32); that of PyTorch is the largest over the
      input and 99 neighbours of it (every element moved by up to 1/64, in f32 in
      turn by no more than 2^-19, by which large scores that are near each other
      stay so, or with roundings drawn anew). Relative, because one rounding of a large
      number is more than any constant. With neighbours, because the error of a
      single number, such as the gradient of a scalar, is random: of two equally
      good methods the first is off by more than twice the second in three
      inputs of ten. The error of a kernel is the least over that for the input
      and those for inputs within 2^-19 of it, which sums of f32 can be off by:
      where a gradient jumps, at a kink, they cannot tell the side of a point.
      On the same operands, because a backward is given the
      output as it is stored. The rounding of the output is an error
      of the forward; in 16 bits it moves the gradient of a parameter, which sums
      it over all rows, further than PyTorch is off, which keeps probabilities.
      Where an encoding has no PyTorch code, plain is its definition run
      literally in f32, one operation at a time, and for products of 16 bits what
      one rounding of the operands changes (two of rows that a map changes); a
      forward there may be off by either.
      Below 2^-126 a kernel knows only 0, of operands, of results and of all that
      lies between: a probability below 2^-126 is 0, and no result is denormal.
      The reference keeps denormals, far below the least error that is allowed.
    * **C8** Query, key and value share a dtype; floating-point parameters and
      the log-sum-exp are f32; gradients have the dtype of what they belong to.
    * **C9** Results are the same bits from run to run and for any number of
      threads, but for gradients of an attention that is `unordered`.
    * **C10** Derivatives at kinks are stated by each rule and finite: a rule
      never produces 0 * inf.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
  let useDefaultAttributePrinterParser = 1;
}

class Pos_Op<string mnemonic, list<Trait> traits = []>
    : Op<Pos_Dialect, mnemonic, traits>;
class Pos_Attr<string name, string mnem, list<Trait> traits = []>
    : AttrDef<Pos_Dialect, name, traits> {
  let mnemonic = mnem;
}

#endif // SEXTANT_POS_BASE_TD
