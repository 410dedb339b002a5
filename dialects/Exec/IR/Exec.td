//===- Exec.td - One op per kind of runtime instruction -----------------------===//
//
// The exec dialect is the last level before an artifact. A program is a
// function of one block, and each of its ops is an instruction of the runtime.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_EXEC_TD
#define SEXTANT_EXEC_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Exec_Dialect : Dialect {
  let name = "exec";
  let cppNamespace = "::sextant::exec";
  let summary = "What the runtime executes: a flat list of instructions";
  let description = [{
    The last level before the artifact. A program is a `func.func` of one block
    whose tensors are buffers: `exec.launch` and in-place dense ops write into
    operands. Integers are of type `index`, made by `tensor.dim`, `exec.distance` and
    `arith` (constant, addi, subi, muli, divsi, ceildivsi, floordivsi, remsi,
    minsi, maxsi). A tensor `arith.constant` is data of the artifact;
    `tensor.cast` checks sizes. Kernels are functions of the nested module
    `@kernels`.

    Attributes of a function's arguments and results that the runtime reads:
    `exec.name` (a string: what errors call it) and, on arguments, `exec.dims`
    (one string per dimension, empty for none: dimensions of one name must have
    one size, whichever argument they belong to). `exec.updated` on an argument
    says to readers of the text that the function writes its new value there; the
    runtime finds out from the instructions.

    ```mlir
    func.func private @forward(
        %q: tensor<?x?x64xf32> {exec.name = "query", exec.dims = ["batch", "length", ""]},
        %k: tensor<?x?x64xf32> {exec.name = "key", exec.dims = ["batch", "", ""]})
    ```

    The name of an op's location (`loc("h.0.attn")`) labels its instruction in
    profiles.
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
    any range, so what it computes must not depend on how items are grouped. Its
    time may: of a kernel with a function `k_together`, of the type of `k_items`,
    so many items, from a multiple of that number on, share what they read where
    they are of one range.

    For a GPU of NVIDIA `k` is an entry of PTX instead; the other two stay
    functions of the host. Its parameters are the argument block by value, the
    number of items (i64), the scratch memory of the launch (an address) and its
    bytes per warp (i64, a multiple of 256). A block is one warp; of `n` blocks
    block `b` runs the items from `items * b / n` to `items * (b + 1) / n - 1`
    with the scratch memory from `b` times the bytes on. A kernel with functions
    `k_threads` and `k_shared`, of the type of `k_items`, has blocks of so many
    threads, which share so many bytes, and where it asks for no scratch memory
    there is a block per item.

    `flops` and `bytes` are what the launch costs, for profiles: floating-point
    operations (a fused multiply-add is two), and bytes that must move between
    memory and the caches at least once. They are computed like any other
    integer. Without `bytes` a profile takes the sizes of the operands; without
    `flops` it shows none.

    ```mlir
    exec.launch @kernels::@k reads(%a : tensor<?xf32>) writes(%b : tensor<?xf32>) scalars(%n) flops(%f)
    ```
  }];
  let arguments = (ins SymbolRefAttr:$kernel, Variadic<AnyRankedTensor>:$reads,
                       Variadic<AnyRankedTensor>:$writes, Variadic<Index>:$scalars,
                       Optional<Index>:$flops, Optional<Index>:$bytes);
  let assemblyFormat = [{
    $kernel (`reads` `(` $reads^ `:` type($reads) `)`)?
    (`writes` `(` $writes^ `:` type($writes) `)`)?
    (`scalars` `(` $scalars^ `)`)? (`flops` `(` $flops^ `)`)?
    (`bytes` `(` $bytes^ `)`)? attr-dict
  }];
}

def Exec_DenseOp : Exec_Op<"dense", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Calls an ATen operator";
  let description = [{
    `op` is the operator's name with its overload. `arguments` describes its
    arguments in the order of the operator's schema, keyword-only ones
    included; arguments at the end may be left out where the schema has a
    default. `#exec.tensor<i>` is the operand i, `#exec.tensors<[i, j]>` a list
    of tensors, `#exec.integer<i>` an index operand, `#exec.integers<[i, j]>` a
    list of them, and a constant is an i64, f64, i1 (bool), array of i64
    (`array<i64: ...>`), string, type (a dtype) or unit (none). An optional
    argument of the schema takes the value itself or unit. A generator is a
    list of three i64 tensors of rank 0: seed, step and place.

    The runtime converts by the operator's schema; `runtime/torch/Schemas.inc`
    lists the operators that a program may call, one line each. Results that
    are views share memory with the operand; of an in-place operator, drop the
    result and go on with the operand.

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
  let hasVerifier = 1;
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
  let hasVerifier = 1;
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

def Exec_Predicate : I32EnumAttr<"Predicate", "relation of two integers", [
    I32EnumAttrCase<"equal", 0>, I32EnumAttrCase<"at_most", 1>,
    I32EnumAttrCase<"multiple_of", 2>, I32EnumAttrCase<"at_least", 3>,
    I32EnumAttrCase<"is", 4>]> {
  let cppNamespace = "::sextant::exec";
  let genSpecializedAttr = 0;
}
def Exec_PredicateAttr : EnumAttr<Exec_Dialect, Exec_Predicate, "predicate"> {
  let assemblyFormat = "$value";
}

def Exec_CheckOp : Exec_Op<"check", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Stops the program unless two integers are related";
  let description = [{
    The error is `message`, followed by both values, but not those of `is`:
    equal, of numbers that stand for a condition. A program of `nn` and `pos` ops may
    hold it, too, to say which sizes of its inputs it takes.

    ```mlir
    exec.check %heads multiple_of %kv_heads, "heads of query and of key do not match"
    ```
  }];
  let arguments = (ins Index:$left, Exec_PredicateAttr:$predicate, Index:$right,
                       StrAttr:$message);
  let assemblyFormat = "$left $predicate $right `,` $message attr-dict";
}

def Exec_DistanceOp : Exec_Op<"distance", [Pure]> {
  let summary = "How far apart the elements of a tensor lie in memory";
  let description = [{
    Elements from the first one to the last along some dimensions: the sum of
    their strides, each as often as indices differ, 0 of an empty tensor. A
    caller's tensor may have any strides, and kernels count in 32 bits from one
    lane to another.

    ```mlir
    %apart = exec.distance %bias over [2, 3] : tensor<?x?x?x?xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$source, DenseI64ArrayAttr:$dims);
  let results = (outs Index:$result);
  let assemblyFormat = "$source `over` $dims attr-dict `:` type($source)";
  let hasVerifier = 1;
}

def Exec_CheckDataOp : Exec_Op<"check_data", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Refuses data that a launch has found out of range";
  let description = [{
    Compares one element of a vector with an integer; the error is that of
    `exec.check`. The vector is i64 and of a static size, which
    `number` is below. No element is the least number of 64 bits, which stands
    for an element that is not known yet.

    A device whose memory is the host's stops the program, as `exec.check` does.
    Any other goes on without waiting, and the error is that of a later call,
    which says so. What follows may therefore run on data that is refused: it
    gives results without meaning, and must not fault. The variable
    `SEXTANT_CHECK=now` waits.

    ```mlir
    exec.check_data %spans[0] at_most %limit, "positions are too far apart" : tensor<3xi64>
    ```
  }];
  let arguments = (ins RankedTensorOf<[I64]>:$source, I64Attr:$number,
                       Exec_PredicateAttr:$predicate, Index:$bound, StrAttr:$message);
  let assemblyFormat = [{
    $source `[` $number `]` $predicate $bound `,` $message attr-dict `:` type($source)
  }];
  let hasVerifier = 1;
}

def Exec_Init : I32EnumAttr<"Init", "distribution of initial values", [
    I32EnumAttrCase<"given", 0>, I32EnumAttrCase<"constant", 1>,
    I32EnumAttrCase<"normal", 2>, I32EnumAttrCase<"uniform", 3>]> {
  let cppNamespace = "::sextant::exec";
  let genSpecializedAttr = 0;
}
def Exec_InitAttr : EnumAttr<Exec_Dialect, Exec_Init, "init"> {
  let assemblyFormat = "$value";
}

def Exec_ParameterOp : Exec_Op<"parameter", []> {
  let summary = "An entry of the artifact's parameter manifest";
  let description = [{
    Stands in the module beside the functions. `init` is `constant [c]`,
    `normal [mean, deviation]`, `uniform [low, high]` or `given`, with `values`
    if the program brings them. `frozen` parameters are not trained; `floor` and
    `ceiling` bound the values after initialisation and each optimizer step;
    `shared` marks one copy for the whole model. Discardable attributes (numbers and strings) are
    kept in the manifest: settings of the optimizer.

    ```mlir
    exec.parameter "h.0.mine.r1" : tensor<4xf32> init uniform [0.0, 2.0] floor 0.01
    exec.parameter "slopes.m" : tensor<2xf32> init given values dense<[0.25, 0.0625]> : tensor<2xf32> frozen
    ```
  }];
  let arguments = (ins StrAttr:$name, TypeAttr:$type, Exec_InitAttr:$init,
                       OptionalAttr<F64ArrayAttr>:$initArgs,
                       OptionalAttr<ElementsAttr>:$values, UnitAttr:$frozen,
                       UnitAttr:$shared, OptionalAttr<F64Attr>:$floor,
                       OptionalAttr<F64Attr>:$ceiling);
  let assemblyFormat = [{
    $name `:` $type `init` $init ($initArgs^)? (`values` $values^)?
    (`frozen` $frozen^)? (`shared` $shared^)? (`floor` $floor^)?
    (`ceiling` $ceiling^)? attr-dict
  }];
  let hasVerifier = 1;
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
  let assemblyFormat = "`<` custom<Numbers>($numbers) `>`";
}
def Exec_IntegerAttr : Exec_Attr<"Integer", "integer"> {
  let summary = "an index operand, by number";
  let parameters = (ins "int64_t":$number);
  let assemblyFormat = "`<` $number `>`";
}
def Exec_IntegersAttr : Exec_Attr<"Integers", "integers"> {
  let summary = "a list of index operands, by number";
  let parameters = (ins ArrayRefParameter<"int64_t">:$numbers);
  let assemblyFormat = "`<` custom<Numbers>($numbers) `>`";
}

#endif // SEXTANT_EXEC_TD
