//===- NnInteger.td - Integers, conditions and conversions --------------------===//
//
// Positions become digits, indices and lengths by these ops, and conditions on
// numbers choose between tensors. Operands are broadcast as by `nn.add`.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_NN_INTEGER_TD
#define SEXTANT_NN_INTEGER_TD

include "dialects/Nn/IR/NnBase.td"
include "dialects/Nn/IR/NnElementwise.td"

def Nn_FloorDivideOp : Nn_BinaryOp<"floor_divide", "aten::floor_divide", [], [],
                                   Nn_Integers> {
  let summary = "Quotient of integers, rounded down";
  let description = [{
    -7 by 2 is -4. Division by 0 is an error at run time.

    ```mlir
    %tens = nn.floor_divide %n, %ten : (tensor<?xi32>, tensor<i32>) -> tensor<?xi32>
    ```
  }];
}

def Nn_RemainderOp : Nn_BinaryOp<"remainder", "aten::remainder.Tensor", [], [],
                                 Nn_Integers> {
  let summary = "Remainder of `nn.floor_divide`";
  let description = [{
    It has the sign of the divisor: -7 by 2 leaves 1.

    ```mlir
    %ones = nn.remainder %n, %ten : (tensor<?xi32>, tensor<i32>) -> tensor<?xi32>
    ```
  }];
}

def Nn_PowerOp : Nn_BinaryOp<"power", "aten::pow.Tensor_Tensor", [], [],
                               Nn_Integers> {
  let summary = "Powers of integers";
  let description = [{
    `left` to the power of `right`, which is not negative.

    ```mlir
    %weights = nn.power %base, %exponents : (tensor<i64>, tensor<5xi64>) -> tensor<5xi64>
    ```
  }];
}

class Nn_CompareOp<string mnemonic, string aten>
    : Nn_BinaryOp<mnemonic, aten, [], [], Nn_Number, Nn_Condition>;

def Nn_EqualOp : Nn_CompareOp<"equal", "aten::eq.Tensor"> {
  let summary = "Whether two numbers are equal";
  let description = [{
    ```mlir
    %c = nn.equal %x, %y : (tensor<?x1xi32>, tensor<?xi32>) -> tensor<?x?xi1>
    ```
  }];
}

def Nn_LessOp : Nn_CompareOp<"less", "aten::lt.Tensor"> {
  let summary = "Whether a number is less than another";
  let description = [{
    ```mlir
    %c = nn.less %x, %y : (tensor<?x1xi32>, tensor<?xi32>) -> tensor<?x?xi1>
    ```
  }];
}

def Nn_AtMostOp : Nn_CompareOp<"at_most", "aten::le.Tensor"> {
  let summary = "Whether a number is less than or equal to another";
  let description = [{
    ```mlir
    %c = nn.at_most %x, %y : (tensor<?x1xi32>, tensor<?xi32>) -> tensor<?x?xi1>
    ```
  }];
}

def Nn_SelectOp : Nn_AtenOp<"select", "aten::where.self",
    ["tensor(getCondition())", "tensor(getThen())", "tensor(getOtherwise())"],
    [DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "One of two tensors, element by element";
  let description = [{
    `then` where the condition holds, else `otherwise`. What is not chosen gets
    a gradient of 0.

    ```mlir
    %z = nn.select %c, %x, %y
      : (tensor<?x1xi1>, tensor<?x64xf32>, tensor<f32>) -> tensor<?x64xf32>
    ```
  }];
  let arguments = (ins Nn_Condition:$condition, Nn_Number:$then, Nn_Number:$otherwise);
  let results = (outs Nn_Number:$result);
  let assemblyFormat = [{ $condition `,` $then `,` $otherwise attr-dict `:`
    functional-type(operands, results) }];
}

def Nn_CastOp : Nn_Op<"cast", [Pure, Nn_CheapToRepeat, SameOperandsAndResultShape,
    DeclareOpInterfaceMethods<Nn_AtenOpInterface>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "The same values as elements of another type";
  let description = [{
    Floats become integers by dropping the fraction; a condition becomes 0 or
    1. Gradients pass between floats.

    ```mlir
    %y = nn.cast %x : tensor<?xi32> -> tensor<?xf32>
    ```
  }];
  let arguments = (ins Nn_Any:$input);
  let results = (outs Nn_Any:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
}

def Nn_IotaOp : Nn_Op<"iota", [Pure, DeclareOpInterfaceMethods<Nn_AtenOpInterface>]> {
  let summary = "The numbers from 0 on";
  let description = [{
    0 .. n - 1, where n is the size of the result, given by `length` if it is
    dynamic.

    ```mlir
    %positions = nn.iota length %n : tensor<?xi32>
    %digits = nn.iota : tensor<10xi64>
    ```
  }];
  let arguments = (ins Optional<Index>:$length);
  let results = (outs 1DTensorOf<[I32, I64]>:$result);
  let assemblyFormat = "(`length` $length^)? attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Nn_ScalarOp : Nn_Op<"scalar", [Pure, DeclareOpInterfaceMethods<Nn_AtenOpInterface>]> {
  let summary = "A size as a tensor of rank 0";
  let description = [{
    ```mlir
    %length = nn.scalar %n : tensor<f32>
    ```
  }];
  let arguments = (ins Index:$value);
  let results = (outs 0DTensorOf<[F32, F64, BF16, F16, I32, I64]>:$result);
  let assemblyFormat = "$value attr-dict `:` type($result)";
}

def Nn_UniqueOp : Nn_AtenOp<"unique", "aten::_unique2",
    ["tensor(getInput())", "boolean(true)", "boolean(true)", "boolean(true)"]> {
  let summary = "The different integers of a tensor";
  let description = [{
    `values` are the integers that occur, in rising order; their number is known
    at run time only. `places` has the place among them of every element of the
    input, `counts` how often each occurs.

    ```mlir
    %values, %places, %counts = nn.unique %x
      : (tensor<?x5xi64>) -> (tensor<?xi64>, tensor<?x5xi64>, tensor<?xi64>)
    ```
  }];
  let arguments = (ins Nn_Integers:$input);
  let results = (outs 1DTensorOf<[I32, I64]>:$values, RankedTensorOf<[I64]>:$places,
                      1DTensorOf<[I64]>:$counts);
  let assemblyFormat = "$input attr-dict `:` functional-type(operands, results)";
}

def Nn_SearchOp : Nn_AtenOp<"search", "aten::searchsorted.Tensor",
    ["tensor(getSorted())", "tensor(getWanted())", "boolean(false)", "boolean(false)",
     "none()", "none()"]> {
  let summary = "Where integers stand in a rising sequence";
  let description = [{
    The first place of `sorted` whose element is not less than the one that is
    wanted; the length of `sorted` if there is none.

    ```mlir
    %places = nn.search %wanted in %values : (tensor<?x5xi64>, tensor<?xi64>) -> tensor<?x5xi64>
    ```
  }];
  let arguments = (ins Nn_Integers:$wanted, 1DTensorOf<[I32, I64]>:$sorted);
  let results = (outs RankedTensorOf<[I64]>:$result);
  let assemblyFormat =
      "$wanted `in` $sorted attr-dict `:` functional-type(operands, results)";
}

def Nn_ArgminOp : Nn_AtenOp<"argmin", "aten::argmin",
    ["tensor(getInput())", "integer(getDim())", "boolean(false)"]> {
  let summary = "Where the least element of a dimension stands";
  let description = [{
    Which of several that are equal is not said.

    ```mlir
    %nearest = nn.argmin %distances dim 1 : (tensor<?x32xi64>) -> tensor<?xi64>
    ```
  }];
  let arguments = (ins Nn_Number:$input, I64Attr:$dim);
  let results = (outs RankedTensorOf<[I64]>:$result);
  let assemblyFormat = "$input `dim` $dim attr-dict `:` functional-type(operands, results)";
}

def Nn_AllOp : Nn_AtenOp<"all", "aten::all", ["tensor(getInput())"]> {
  let summary = "Whether a condition holds everywhere";
  let description = [{
    ```mlir
    %every = nn.all %c : (tensor<?x?xi1>) -> tensor<i1>
    ```
  }];
  let arguments = (ins Nn_Condition:$input);
  let results = (outs 0DTensorOf<[I1]>:$result);
  let assemblyFormat = "$input attr-dict `:` functional-type(operands, results)";
}

def Nn_RequireOp : Nn_Op<"require", [Pure, AllTypesMatch<["input", "result"]>]> {
  let summary = "Integers of which a condition must hold";
  let description = [{
    The input, if the condition holds; else running the program is an error with
    the message. What is computed from the result is computed after the check; a
    result that nothing uses is not checked. On a GPU nobody waits for the
    condition (`exec.check_data`): the error is that of a later call, so what
    follows must not fault where the condition does not hold.

    ```mlir
    %y = nn.require %c, %x, "positions are not negative"
      : (tensor<i1>, tensor<?xi32>) -> tensor<?xi32>
    ```
  }];
  let arguments = (ins 0DTensorOf<[I1]>:$condition, Nn_Integers:$input, StrAttr:$message);
  let results = (outs Nn_Integers:$result);
  let assemblyFormat = [{ $condition `,` $input `,` $message attr-dict `:`
    functional-type(operands, results) }];
}

#endif // SEXTANT_NN_INTEGER_TD
