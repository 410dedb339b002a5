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

def Nn_CastOp : Nn_Op<"cast", [Pure, SameOperandsAndResultShape,
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

#endif // SEXTANT_NN_INTEGER_TD
