//===- Exec.td - One op per kind of runtime instruction -----------------------===//

#ifndef SEXTANT_EXEC_TD
#define SEXTANT_EXEC_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Exec_Dialect : Dialect {
  let name = "exec";
  let cppNamespace = "::sextant::exec";
  let summary = "What the runtime executes: a flat list of instructions";
  let description = [{
    The last level before the artifact. A program is a `func.func` of one block
    whose tensors are buffers: `exec.launch` and in-place dense ops write into
    operands. Integers are of type `index`, made by `tensor.dim` and by
    `arith` (constant, addi, subi, muli, ceildivsi, floordivsi, minsi, maxsi).
    Kernels are functions of the nested module `@kernels`.
  }];
  let useDefaultAttributePrinterParser = 1;
}

class Exec_Op<string mnemonic, list<Trait> traits = []>
    : Op<Exec_Dialect, mnemonic, traits>;

def Exec_AllocOp : Exec_Op<"alloc", [MemoryEffects<[MemAlloc]>]> {
  let summary = "Allocates a contiguous tensor";
  let description = [{
    One size per dynamic dimension. The contents are undefined unless `zero`.

    ```mlir
    %t = exec.alloc(%n) zero : tensor<?x64xf32>
    ```
  }];
  let arguments = (ins Variadic<Index>:$sizes, UnitAttr:$zero);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "`(` $sizes `)` (`zero` $zero^)? attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Exec_LaunchOp : Exec_Op<"launch", [AttrSizedOperandSegments,
    MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Runs a kernel over its work items";
  let description = [{
    A kernel `@k` of `@kernels` is three functions over an argument block of
    64-bit words, which holds for each tensor, reads before writes: the
    address, the sizes, the strides (in elements); then the scalars.

    ```c
    void    k(const int64_t *arguments, int64_t begin, int64_t end, void *scratch);
    int64_t k_items(const int64_t *arguments);    // number of work items
    int64_t k_scratch(const int64_t *arguments);  // bytes of scratch per thread
    ```

    Items are independent; the caller runs disjoint ranges on any threads, each
    with scratch memory of its own, aligned to 64 bytes. `k` may be called for
    any range, so what it computes must not depend on how items are grouped.

    ```mlir
    exec.launch @kernels::@k reads(%a : tensor<?xf32>) writes(%b : tensor<?xf32>) scalars(%n)
    ```
  }];
  let arguments = (ins SymbolRefAttr:$kernel, Variadic<AnyRankedTensor>:$reads,
                       Variadic<AnyRankedTensor>:$writes, Variadic<Index>:$scalars);
  let assemblyFormat = [{
    $kernel (`reads` `(` $reads^ `:` type($reads) `)`)?
    (`writes` `(` $writes^ `:` type($writes) `)`)?
    (`scalars` `(` $scalars^ `)`)? attr-dict
  }];
}

def Exec_DenseOp : Exec_Op<"dense", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Calls an ATen operator";
  let description = [{
    `op` is the operator's name with its overload. `arguments` describes its
    arguments in order: `#exec.tensor<i>` is the operand i, `#exec.tensors<[i,
    j]>` a list of tensors, `#exec.integer<i>` an integer operand, and a constant is an i64, f64, i1 (bool), array of i64 (`array<i64: ...>`),
    string, type (a dtype) or unit (none). Results that are views share memory with the operand.

    ```mlir
    %r = exec.dense "aten::add.Tensor"(%a, %b : tensor<?xf32>, tensor<?xf32>)
      arguments [#exec.tensor<0>, #exec.tensor<1>, 1 : i64] -> tensor<?xf32>
    ```
  }];
  let arguments = (ins StrAttr:$op, Variadic<AnyType>:$operands, ArrayAttr:$arguments);
  let results = (outs Variadic<AnyRankedTensor>:$outputs);
  let assemblyFormat = [{
    $op `(` ($operands^ `:` type($operands))? `)` `arguments` $arguments attr-dict
    (`->` type($outputs)^)?
  }];
}

def Exec_ViewOp : Exec_Op<"view", [Pure]> {
  let summary = "Another shape of the same memory";
  let description = [{
    Splits or joins dimensions by `sizes` (one index per dynamic dimension of
    the result) after permuting the operand's dimensions by `permutation`, if
    given. It never copies: an impossible view is an error at run time.

    ```mlir
    %v = exec.view %t permuted [1, 0] sizes(%n) : tensor<?x64xf32> -> tensor<64x?xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$source, OptionalAttr<DenseI64ArrayAttr>:$permutation,
                       Variadic<Index>:$sizes);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $source (`permuted` $permutation^)? (`sizes` `(` $sizes^ `)`)? attr-dict `:`
    type($source) `->` type($result)
  }];
}

def Exec_ReleaseOp : Exec_Op<"release", [MemoryEffects<[MemFree]>]> {
  let summary = "Drops tensors after their last use";
  let description = [{
    ```mlir
    exec.release %t : tensor<?xf32>
    ```
  }];
  let arguments = (ins Variadic<AnyRankedTensor>:$tensors);
  let assemblyFormat = "$tensors attr-dict `:` type($tensors)";
}

class Exec_Attr<string name, string mnem> : AttrDef<Exec_Dialect, name> {
  let mnemonic = mnem;
}
def Exec_TensorAttr : Exec_Attr<"Tensor", "tensor"> {
  let summary = "a tensor operand, by number";
  let parameters = (ins "int64_t":$number);
  let assemblyFormat = "`<` $number `>`";
}
def Exec_TensorsAttr : Exec_Attr<"Tensors", "tensors"> {
  let summary = "a list of tensor operands, by number";
  let parameters = (ins ArrayRefParameter<"int64_t">:$numbers);
  let assemblyFormat = "`<` `[` $numbers `]` `>`";
}
def Exec_IntegerAttr : Exec_Attr<"Integer", "integer"> {
  let summary = "an index operand, by number";
  let parameters = (ins "int64_t":$number);
  let assemblyFormat = "`<` $number `>`";
}

#endif // SEXTANT_EXEC_TD
