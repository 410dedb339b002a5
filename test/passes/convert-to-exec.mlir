// RUN: sextant-opt %s --nn-convert-to-exec --split-input-file | FileCheck %s
// RUN: sextant-opt %s --nn-convert-to-exec --split-input-file --remarks-filter=nn-convert-to-exec -o /dev/null 2>&1 | FileCheck %s --check-prefix=COUNT

// Each op is the call that its definition describes; sizes are read from the
// operands where they are dynamic.
// CHECK-LABEL: func @calls
// CHECK:       %[[X:.+]] = exec.dense "aten::embedding"(%{{.*}}, %{{.*}} : tensor<256x64xf32>, tensor<?x?xi64>)
// CHECK-SAME:  arguments [#exec.tensor<0>, #exec.tensor<1>, -1, false, false] -> tensor<?x?x64xf32>
// CHECK:       exec.dense "aten::linear"(%[[X]], %{{.*}} : tensor<?x?x64xf32>, tensor<256x64xf32>)
// CHECK-SAME:  arguments [#exec.tensor<0>, #exec.tensor<1>, unit] -> tensor<?x?x256xf32>
// CHECK:       exec.dense "aten::native_layer_norm"
// CHECK-SAME:  arguments [#exec.tensor<0>, array<i64: 64>, #exec.tensor<1>, #exec.tensor<2>, 1.000000e-05]
// CHECK:       exec.dense "aten::reshape"
// CHECK-SAME:  arguments [#exec.tensor<0>, #exec.integers<[1, 2, 3, 4]>] -> tensor<?x?x4x16xf32>
// CHECK:       exec.dense "aten::narrow"
// CHECK-SAME:  arguments [#exec.tensor<0>, 3, 0, 4] -> tensor<?x?x4x4xf32>
// CHECK:       exec.dense "aten::narrow"
// CHECK-SAME:  arguments [#exec.tensor<0>, 3, 4, 12] -> tensor<?x?x4x12xf32>
func.func @calls(%tokens: tensor<?x?xi64>, %w: tensor<256x64xf32>, %g: tensor<64xf32>,
                 %n: index, %m: index) -> (tensor<?x?x256xf32>, tensor<?x?x4x12xf32>) {
  %x = nn.embedding %w, %tokens : (tensor<256x64xf32>, tensor<?x?xi64>) -> tensor<?x?x64xf32>
  %y = nn.linear %x, %w : (tensor<?x?x64xf32>, tensor<256x64xf32>) -> tensor<?x?x256xf32>
  %z, %mean, %rstd = nn.layer_norm %x, %g, %g epsilon 1.0e-5
    : (tensor<?x?x64xf32>, tensor<64xf32>, tensor<64xf32>)
    -> (tensor<?x?x64xf32>, tensor<?x?x1xf32>, tensor<?x?x1xf32>)
  %h = nn.reshape %z sizes(%n, %m) : tensor<?x?x64xf32> -> tensor<?x?x4x16xf32>
  %a, %b = nn.split %h dim 3 into [4, 12]
    : (tensor<?x?x4x16xf32>) -> (tensor<?x?x4x4xf32>, tensor<?x?x4x12xf32>)
  return %y, %b : tensor<?x?x256xf32>, tensor<?x?x4x12xf32>
}

// -----

// Bounds of ranges are known or values. Where both are known, a range from the
// end ends there.
// COUNT: remark: [Passed] scheduled | Category:nn-convert-to-exec | InPlace=0, Ops=6
// CHECK-LABEL: func @ranges
// CHECK:       exec.check %{{.*}} at_most %{{.*}}, "the start of a slice is negative"
// CHECK:       exec.dense "aten::narrow"({{.*}} : tensor<?xf32>, index, index)
// CHECK-SAME:  arguments [#exec.tensor<0>, 0, #exec.integer<1>, #exec.integer<2>] -> tensor<?xf32>
// CHECK:       exec.dense "aten::narrow"
// CHECK-SAME:  arguments [#exec.tensor<0>, 0, -2, 2] -> tensor<2xf32>
// CHECK:       %[[END:.+]] = arith.addi
// CHECK:       exec.dense "aten::slice_backward"({{.*}} %[[END]] : tensor<?xf32>, index, index, index)
// CHECK-SAME:  arguments [#exec.tensor<0>, #exec.integers<[1]>, 0, #exec.integer<2>, #exec.integer<3>, 1]
// CHECK:       exec.dense "aten::slice_backward"
// CHECK-SAME:  arguments [#exec.tensor<0>, #exec.integers<[1]>, 0, -2, 9223372036854775807, 1]
// CHECK:       exec.dense "aten::arange"(%{{.*}} : index) arguments [#exec.integer<0>, i64] -> tensor<?xi64>
// CHECK:       exec.dense "aten::_to_copy"(%{{.*}} : tensor<?xi64>) arguments [#exec.tensor<0>, f32] -> tensor<?xf32>
func.func @ranges(%x: tensor<?xf32>, %i: index, %n: index) -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) {
  %0 = nn.slice %x dim 0 start %i length %n : (tensor<?xf32>, index, index) -> tensor<?xf32>
  %1 = nn.slice %x dim 0 start -2 length 2 : (tensor<?xf32>) -> tensor<2xf32>
  %2 = nn.slice_backward %0, %x dim 0 start %i length %n
    : (tensor<?xf32>, tensor<?xf32>, index, index) -> tensor<?xf32>
  %3 = nn.slice_backward %1, %x dim 0 start -2 length 2
    : (tensor<2xf32>, tensor<?xf32>) -> tensor<?xf32>
  %4 = nn.iota length %n : tensor<?xi64>
  %5 = nn.cast %4 : tensor<?xi64> -> tensor<?xf32>
  return %2, %3, %5 : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>
}

// -----

// A dropout is a mask that is multiplied where it was made; one of probability 0
// is nothing after canonicalisation.
// CHECK-LABEL: func @dropout
// CHECK-SAME:  (%[[X:.+]]: tensor<?x8xf32>, %[[SEED:.+]]: tensor<i64>, %[[STEP:.+]]: tensor<i64>)
// CHECK-DAG:   %[[PLACE:.+]] = arith.constant dense<3> : tensor<i64>
// CHECK:       %[[MASK:.+]] = exec.dense "aten::bernoulli.p"(%[[X]], %[[SEED]], %[[STEP]], %[[PLACE]] :
// CHECK-SAME:  arguments [#exec.tensor<0>, 7.500000e-01, #exec.tensors<[1, 2, 3]>] -> tensor<?x8xf32>
// CHECK:       exec.dense "aten::mul_.Tensor"(%[[MASK]], %[[X]] :
// CHECK:       exec.dense "aten::mul_.Tensor"(%[[MASK]], %{{.*}} :
// CHECK:       return %[[MASK]]
func.func @dropout(%x: tensor<?x8xf32>, %seed: tensor<i64>, %step: tensor<i64>) -> tensor<?x8xf32> {
  %0 = nn.dropout %x probability 0.25 seed(%seed) step(%step) place 3 : tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}

// -----

// An operand that nothing reads afterwards is overwritten, unless it belongs
// to the caller, is a view, or is given back.
// COUNT: remark: [Passed] scheduled | Category:nn-convert-to-exec | InPlace=0
// COUNT: remark: [Passed] scheduled | Category:nn-convert-to-exec | InPlace=1, Ops=5
// CHECK-LABEL: func @in_place
// CHECK-SAME:  (%[[X:.+]]: tensor<?x64xf32>)
// CHECK:       %[[A:.+]] = exec.dense "aten::mul.Tensor"(%[[X]], %[[X]]
// CHECK:       exec.dense "aten::_log_softmax.out"(%[[A]], %[[A]] :
// CHECK-SAME:  arguments [#exec.tensor<0>, -1, false, #exec.tensor<1>]{{$}}
// CHECK:       %[[C:.+]] = exec.dense "aten::mul.Tensor"(%[[A]], %[[X]]
// CHECK:       %[[T:.+]] = exec.dense "aten::transpose.int"(%[[C]]
// CHECK:       %[[D:.+]] = exec.dense "aten::mul.Tensor"(%[[T]], %[[T]]
// CHECK:       return %[[A]], %[[D]]
func.func @in_place(%x: tensor<?x64xf32>) -> (tensor<?x64xf32>, tensor<64x?xf32>) {
  %a = nn.mul %x, %x : (tensor<?x64xf32>, tensor<?x64xf32>) -> tensor<?x64xf32>
  %b = nn.log_softmax %a : (tensor<?x64xf32>) -> tensor<?x64xf32>
  %c = nn.mul %b, %x : (tensor<?x64xf32>, tensor<?x64xf32>) -> tensor<?x64xf32>
  %t = nn.transpose %c 0, 1 : (tensor<?x64xf32>) -> tensor<64x?xf32>
  %d = nn.mul %t, %t : (tensor<64x?xf32>, tensor<64x?xf32>) -> tensor<64x?xf32>
  return %b, %d : tensor<?x64xf32>, tensor<64x?xf32>
}

// -----

// What is given back of the old values is copied before new ones are written.
// CHECK-LABEL: func @exchange
// CHECK-SAME:  (%[[A:[a-z0-9]+]]: tensor<8x8xf32> {{.*}}, %[[B:[a-z0-9]+]]: tensor<8x8xf32> {{.*}}, %[[C:[a-z0-9]+]]: tensor<8x8xf32>
// CHECK-NEXT:  %[[T:.+]] = exec.dense "aten::transpose.int"(%[[A]]
// CHECK-NEXT:  %[[OLD_B:.+]] = exec.dense "aten::clone"(%[[B]]
// CHECK-NEXT:  %[[OLD_T:.+]] = exec.dense "aten::clone"(%[[T]]
// CHECK-NEXT:  %[[OLD_A:.+]] = exec.dense "aten::clone"(%[[A]]
// CHECK-NEXT:  exec.dense "aten::copy_"(%[[A]], %[[OLD_B]]
// CHECK-NEXT:  exec.dense "aten::copy_"(%[[B]], %[[OLD_T]]
// CHECK-NEXT:  return %[[OLD_A]] :
func.func @exchange(%a: tensor<8x8xf32> {nn.parameter = "a"}, %b: tensor<8x8xf32> {nn.parameter = "b"},
                    %c: tensor<8x8xf32> {nn.parameter = "c"})
    -> (tensor<8x8xf32> {nn.parameter = "a"}, tensor<8x8xf32> {nn.parameter = "b"},
        tensor<8x8xf32> {nn.parameter = "c"}, tensor<8x8xf32>) {
  %t = nn.transpose %a 0, 1 : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %b, %t, %c, %a : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
}

// -----

// So is what an op writes over old values, where it is the new value of another
// argument, a view, or no new value.
// CHECK-LABEL: func @exchange_in_place
// CHECK-SAME:  (%[[A:[a-z0-9]+]]: tensor<8x8xf32> {{.*}}, %[[B:[a-z0-9]+]]: tensor<8x8xf32> {{.*}}, %[[C:[a-z0-9]+]]: tensor<8x8xf32>
// CHECK:       exec.dense "aten::mul_.Tensor"(%[[A]],
// CHECK:       exec.dense "aten::exp_"(%[[B]]
// CHECK:       %[[T:.+]] = exec.dense "aten::transpose.int"(%[[B]]
// CHECK:       exec.dense "aten::neg_"(%[[C]]
// CHECK-NEXT:  %[[NEW_A:.+]] = exec.dense "aten::clone"(%[[T]]
// CHECK-NEXT:  %[[NEW_B:.+]] = exec.dense "aten::clone"(%[[A]]
// CHECK-NEXT:  %[[GIVEN:.+]] = exec.dense "aten::clone"(%[[C]]
// CHECK-NEXT:  exec.dense "aten::copy_"(%[[A]], %[[NEW_A]]
// CHECK-NEXT:  exec.dense "aten::copy_"(%[[B]], %[[NEW_B]]
// CHECK-NEXT:  return %[[GIVEN]] :
func.func @exchange_in_place(
    %a: tensor<8x8xf32> {nn.parameter = "a"}, %b: tensor<8x8xf32> {nn.parameter = "b"},
    %c: tensor<8x8xf32> {nn.parameter = "c"})
    -> (tensor<8x8xf32> {nn.parameter = "a"}, tensor<8x8xf32> {nn.parameter = "b"},
        tensor<8x8xf32> {nn.parameter = "c"}, tensor<8x8xf32>) {
  %m = nn.scale %a by 2.0 : tensor<8x8xf32>
  %n = nn.exp %b : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %t = nn.transpose %n 0, 1 : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %o = nn.neg %c : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %t, %m, %o, %o : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
}

// -----

// CHECK: exec.parameter "w" : tensor<8xf32> init normal [0.000000e+00, 2.000000e-02] {decay = 1 : i64}
nn.parameter "w" : tensor<8xf32> init normal [0.0, 0.02] decay

// What has the mark of an argument is written into it and no longer a result.
// CHECK-LABEL: func @update
// CHECK-SAME:  (%[[P:.+]]: tensor<8xf32> {exec.name = "w", exec.updated, nn.parameter = "w"},
// CHECK-SAME:  %[[G:.+]]: tensor<8xf32> {exec.name = "w:gradient", nn.gradient = "w"},
// CHECK-SAME:  %[[M:.+]]: tensor<8xf32> {exec.name = "w:first_moment", exec.updated, nn.first_moment = "w"},
// CHECK-SAME:  %[[V:.+]]: tensor<8xf32> {exec.name = "w:second_moment", exec.updated, nn.second_moment = "w"},
// CHECK-SAME:  -> (tensor<f32> {exec.name = "gradient_norm", nn.gradient_norm})
// CHECK:       %[[FLAT:.+]] = exec.dense "aten::reshape"(%[[G]]
// CHECK:       exec.dense "aten::dot"(%[[FLAT]], %[[FLAT]]
// CHECK:       %[[NORM:.+]] = exec.dense "aten::sqrt"
// The gradient belongs to the caller: it is divided in a copy.
// CHECK:       %[[COPY:.+]] = exec.dense "aten::clone"(%[[G]]
// CHECK:       exec.dense "aten::_fused_adamw_.tensor_lr"(%[[P]], %[[COPY]], %[[M]], %[[V]],
// CHECK:       exec.dense "aten::clamp_.Tensor"(%[[P]],
// CHECK:       %[[NEXT:.+]] = exec.dense "aten::add.Tensor"
// CHECK:       exec.dense "aten::copy_"(%[[STEP:.+]], %[[NEXT]]
// CHECK:       return %[[NORM]] : tensor<f32>
func.func @update(%p: tensor<8xf32> {nn.parameter = "w"}, %g: tensor<8xf32> {nn.gradient = "w"},
                  %m: tensor<8xf32> {nn.first_moment = "w"}, %v: tensor<8xf32> {nn.second_moment = "w"},
                  %rate: tensor<f32> {nn.learning_rate}, %step: tensor<f32> {nn.step})
    -> (tensor<f32> {nn.gradient_norm}, tensor<f32> {nn.step}, tensor<8xf32> {nn.parameter = "w"},
        tensor<8xf32> {nn.first_moment = "w"}, tensor<8xf32> {nn.second_moment = "w"}) {
  %n = nn.global_norm %g : (tensor<8xf32>) -> tensor<f32>
  %u:3 = nn.adamw (%p) gradients(%g) moments(%m), (%v) step %step rate %rate gradient_scale %n
    decay 0.1 betas [0.9, 0.95] epsilon 1.0e-8 : (tensor<8xf32>), tensor<f32>, tensor<f32>, tensor<f32>
  %c = nn.clamp %u#0 floor 0.01 : tensor<8xf32>
  %one = arith.constant dense<1.0> : tensor<f32>
  %next = nn.add %step, %one : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %n, %next, %c, %u#1, %u#2
    : tensor<f32>, tensor<f32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// -----

// Without marks nothing of the caller's is overwritten.
// CHECK-LABEL: func @functional
// CHECK-COUNT-3: exec.dense "aten::clone"
// CHECK:       exec.dense "aten::_fused_adamw_.tensor_lr"
func.func @functional(%p: tensor<8xf32>, %g: tensor<8xf32>, %s: tensor<f32>)
    -> (tensor<8xf32>, tensor<8xf32>) {
  %u:3 = nn.adamw (%p) gradients(%g) moments(%p), (%p) step %s rate %s
    decay 0.1 betas [0.9, 0.95] epsilon 1.0e-8 : (tensor<8xf32>), tensor<f32>, tensor<f32>
  return %u#0, %u#1 : tensor<8xf32>, tensor<8xf32>
}

// -----

// The optimizer goes through the memory of gradients as through that of parameters:
// those that may lie in another order, or with gaps, are brought into it.
// CHECK-LABEL: func @strided_gradients
// CHECK:       %[[TURNED:.+]] = exec.dense "aten::transpose.int"
// CHECK:       %[[SUM:.+]] = exec.dense "aten::add.Tensor"(%[[TURNED]], %[[TURNED]]
// CHECK:       %[[PLAIN:.+]] = exec.dense "aten::matmul"
// CHECK:       %[[FIRST:.+]] = exec.dense "aten::contiguous"(%[[TURNED]]
// CHECK-NEXT:  %[[SECOND:.+]] = exec.dense "aten::contiguous"(%[[SUM]]
// CHECK-NEXT:  exec.dense "aten::_fused_adamw_.tensor_lr"({{.+}} %[[FIRST]], %[[SECOND]], %[[PLAIN]],
func.func @strided_gradients(%p: tensor<5x3xf32>, %g: tensor<3x5xf32>, %a: tensor<5x2xf32>,
                             %b: tensor<2x3xf32>, %s: tensor<f32>)
    -> (tensor<5x3xf32>, tensor<5x3xf32>, tensor<5x3xf32>) {
  %turned = nn.transpose %g 0, 1 : (tensor<3x5xf32>) -> tensor<5x3xf32>
  %sum = nn.add %turned, %turned : (tensor<5x3xf32>, tensor<5x3xf32>) -> tensor<5x3xf32>
  %plain = nn.matmul %a, %b : (tensor<5x2xf32>, tensor<2x3xf32>) -> tensor<5x3xf32>
  %u:9 = nn.adamw (%p, %p, %p) gradients(%turned, %sum, %plain) moments(%p, %p, %p), (%p, %p, %p)
    step %s rate %s decay 0.1 betas [0.9, 0.95] epsilon 1.0e-8
    : (tensor<5x3xf32>, tensor<5x3xf32>, tensor<5x3xf32>), tensor<f32>, tensor<f32>
  return %u#0, %u#1, %u#2 : tensor<5x3xf32>, tensor<5x3xf32>, tensor<5x3xf32>
}

// -----

// The gradient of taken rows is that of an embedding, which adds in one order on a
// GPU, too: rows come first and are flat, and the result turns back.
// CHECK-LABEL: func @taken
// CHECK:       exec.dense "aten::embedding_dense_backward"(%{{.*}}, %{{.*}} : tensor<?x4xf32>, tensor<?xi64>)
// CHECK-SAME:  arguments [#exec.tensor<0>, #exec.tensor<1>, 5, -1, false] -> tensor<5x4xf32>
// CHECK-NEXT:  return
func.func @taken(%dy: tensor<?x4xf32>, %x: tensor<5x4xf32>, %i: tensor<?xi64>) -> tensor<5x4xf32> {
  %0 = nn.index_select_backward %dy, %x, %i dim 0
    : (tensor<?x4xf32>, tensor<5x4xf32>, tensor<?xi64>) -> tensor<5x4xf32>
  return %0 : tensor<5x4xf32>
}
// CHECK-LABEL: func @taken_numbers
// CHECK:       exec.dense "aten::unsqueeze"({{.*}}) arguments [#exec.tensor<0>, 1] -> tensor<7x1xf32>
// CHECK:       exec.dense "aten::embedding_dense_backward"({{.*}}) arguments [{{.*}}] -> tensor<?x1xf32>
// CHECK:       exec.dense "aten::squeeze.dim"({{.*}}) arguments [#exec.tensor<0>, 1] -> tensor<?xf32>
func.func @taken_numbers(%dy: tensor<7xf32>, %x: tensor<?xf32>, %i: tensor<7xi64>) -> tensor<?xf32> {
  %0 = nn.index_select_backward %dy, %x, %i dim 0
    : (tensor<7xf32>, tensor<?xf32>, tensor<7xi64>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}
// CHECK-LABEL: func @taken_columns
// CHECK:       exec.dense "aten::transpose.int"({{.*}}) arguments [#exec.tensor<0>, 0, 1] -> tensor<7x?x4xf32>
// CHECK:       exec.dense "aten::flatten.using_ints"({{.*}}) arguments [#exec.tensor<0>, 1, -1] -> tensor<7x?xf32>
// CHECK:       exec.dense "aten::embedding_dense_backward"({{.*}}) arguments [#exec.tensor<0>, #exec.tensor<1>, 5, -1, false]
// CHECK-SAME:  -> tensor<5x?xf32>
// CHECK:       exec.dense "aten::view"({{.*}}) arguments [#exec.tensor<0>, #exec.integers<[1, 2, 3]>] -> tensor<5x?x4xf32>
// CHECK:       exec.dense "aten::transpose.int"({{.*}}) arguments [#exec.tensor<0>, 0, 1] -> tensor<?x5x4xf32>
// CHECK:       exec.dense "aten::contiguous"
func.func @taken_columns(%dy: tensor<?x7x4xf32>, %x: tensor<?x5x4xf32>, %i: tensor<7xi64>)
    -> tensor<?x5x4xf32> {
  %0 = nn.index_select_backward %dy, %x, %i dim 1
    : (tensor<?x7x4xf32>, tensor<?x5x4xf32>, tensor<7xi64>) -> tensor<?x5x4xf32>
  return %0 : tensor<?x5x4xf32>
}

// -----

// Functions of floats overwrite their operand; views and what a derivative still
// reads stay.
// COUNT: remark: [Passed] scheduled | Category:nn-convert-to-exec | InPlace=5
// CHECK-LABEL: func @functions
// CHECK:       %[[D:.+]] = exec.dense "aten::div.Tensor"
// CHECK:       exec.dense "aten::exp_"(%[[D]]
// CHECK:       exec.dense "aten::cos_"(%[[D]]
// CHECK:       exec.dense "aten::neg_"(%[[D]]
// CHECK:       %[[V:.+]] = exec.dense "aten::detach"(%[[D]]
// CHECK:       %[[S:.+]] = exec.dense "aten::sigmoid"(%[[V]]
// CHECK:       exec.dense "aten::_softmax.out"(%[[S]], %[[S]]
// CHECK:       exec.dense "aten::sin_"(%[[S]]
// CHECK:       return %[[S]]
func.func @functions(%x: tensor<?x64xf32>, %y: tensor<?x1xf32>) -> tensor<?x64xf32> {
  %0 = nn.div %x, %y : (tensor<?x64xf32>, tensor<?x1xf32>) -> tensor<?x64xf32>
  %1 = nn.exp %0 : (tensor<?x64xf32>) -> tensor<?x64xf32>
  %2 = nn.cos %1 : (tensor<?x64xf32>) -> tensor<?x64xf32>
  %3 = nn.neg %2 : (tensor<?x64xf32>) -> tensor<?x64xf32>
  %4 = nn.stop_gradient %3 : (tensor<?x64xf32>) -> tensor<?x64xf32>
  %5 = nn.sigmoid %4 : (tensor<?x64xf32>) -> tensor<?x64xf32>
  %6 = nn.softmax %5 : (tensor<?x64xf32>) -> tensor<?x64xf32>
  %7 = nn.sin %6 : (tensor<?x64xf32>) -> tensor<?x64xf32>
  return %7 : tensor<?x64xf32>
}

// -----

// Filled tensors: zeros are allocated, scalars are constants.
// CHECK-LABEL: func @filled
// CHECK:       exec.alloc(%{{.*}}) zero : tensor<?x4xf32>
// CHECK:       arith.constant dense<1.000000e+00> : tensor<f32>
// CHECK:       exec.dense "aten::full"(%{{.*}} : index, index) arguments [#exec.integers<[0, 1]>, 2.000000e+00, f32] -> tensor<?x4xf32>
// CHECK:       exec.dense "aten::full"(%{{.*}} : index) arguments [#exec.integers<[0]>, 7, i32] -> tensor<?xi32>
func.func @filled(%n: index) -> (tensor<?x4xf32>, tensor<f32>, tensor<?x4xf32>, tensor<?xi32>) {
  %c0 = arith.constant 0.0 : f32
  %c1 = arith.constant 1.0 : f32
  %c2 = arith.constant 2.0 : f32
  %0 = tensor.splat %c0[%n] : tensor<?x4xf32>
  %1 = tensor.splat %c1 : tensor<f32>
  %2 = tensor.splat %c2[%n] : tensor<?x4xf32>
  %c7 = arith.constant 7 : i32
  %3 = tensor.splat %c7[%n] : tensor<?xi32>
  return %0, %1, %2, %3 : tensor<?x4xf32>, tensor<f32>, tensor<?x4xf32>, tensor<?xi32>
}

// -----

// A condition is a word that the runtime looks at when it is known. What is
// checked keeps its memory: the sum must not overwrite the argument.
// CHECK-LABEL: func @required
// CHECK-SAME:  (%[[C:.+]]: tensor<i1>, %[[X:.+]]: tensor<?xi64>)
// CHECK:       %[[WORD:.+]] = exec.dense "aten::_to_copy"(%[[C]] : tensor<i1>) arguments [#exec.tensor<0>, i64] -> tensor<i64>
// CHECK:       %[[V:.+]] = exec.dense "aten::unsqueeze"(%[[WORD]] : tensor<i64>) arguments [#exec.tensor<0>, 0] -> tensor<1xi64>
// CHECK:       %[[HOLDS:.+]] = arith.constant 1 : index
// CHECK:       exec.check_data %[[V]][0] is %[[HOLDS]], "out of order" : tensor<1xi64>
// CHECK:       exec.dense "aten::mul.Tensor"(%[[X]], %[[X]]
func.func @required(%c: tensor<i1>, %x: tensor<?xi64>) -> tensor<?xi64> {
  %0 = nn.require %c, %x, "out of order" : (tensor<i1>, tensor<?xi64>) -> tensor<?xi64>
  %1 = nn.mul %0, %0 : (tensor<?xi64>, tensor<?xi64>) -> tensor<?xi64>
  return %1 : tensor<?xi64>
}

// -----

// Memory that is made before a check is the memory of what was checked.
// CHECK-LABEL: func @required_of_own
// CHECK:       %[[S:.+]] = exec.dense "aten::neg"
// CHECK:       exec.check_data
// CHECK:       exec.dense "aten::neg"(%[[S]]
// CHECK:       exec.dense "aten::neg_"(%[[S]]
func.func @required_of_own(%c: tensor<i1>, %x: tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>) {
  %0 = nn.neg %x : (tensor<?xi64>) -> tensor<?xi64>
  %1 = nn.require %c, %0, "out of order" : (tensor<i1>, tensor<?xi64>) -> tensor<?xi64>
  %2 = nn.neg %1 : (tensor<?xi64>) -> tensor<?xi64>
  %3 = nn.neg %0 : (tensor<?xi64>) -> tensor<?xi64>
  return %2, %3 : tensor<?xi64>, tensor<?xi64>
}

// -----

// A sum of f32 reads what was widened for it as it was, on either side, in a chain
// as well: ATen promotes types of tensors. One of the two stays wide, scalars do
// not count, and what something else reads wide is widened once.
// CHECK-LABEL: func @narrow_addends
// CHECK-SAME:  (%[[X:.+]]: tensor<?x8xf32>, %[[A:.+]]: tensor<?x8xbf16>, %[[B:.+]]: tensor<?x8xbf16>, %[[C:.+]]: tensor<?x8xbf16>, %[[S:.+]]: tensor<bf16>)
// CHECK-DAG:   %[[WIDE_B:.+]] = exec.dense "aten::_to_copy"(%[[B]] : tensor<?x8xbf16>)
// CHECK-DAG:   %[[WIDE_C:.+]] = exec.dense "aten::_to_copy"(%[[C]] : tensor<?x8xbf16>)
// CHECK-DAG:   %[[WIDE_S:.+]] = exec.dense "aten::_to_copy"(%[[S]] : tensor<bf16>)
// CHECK-NOT:   "aten::_to_copy"
// CHECK:       %[[Y:.+]] = exec.dense "aten::add.Tensor"(%[[X]], %[[A]] : tensor<?x8xf32>, tensor<?x8xbf16>) {{.*}} -> tensor<?x8xf32>
// CHECK:       %[[Z:.+]] = exec.dense "aten::add.Tensor"(%[[A]], %[[Y]] : tensor<?x8xbf16>, tensor<?x8xf32>) {{.*}} -> tensor<?x8xf32>
// CHECK:       %[[P:.+]] = exec.dense "aten::add.Tensor"(%[[Z]], %[[WIDE_B]] :
// CHECK:       exec.dense "aten::mul_.Tensor"(%[[P]], %[[WIDE_B]] :
// CHECK:       exec.dense "aten::add.Tensor"(%[[P]], %[[WIDE_S]] :
// CHECK:       exec.dense "aten::add.Tensor"(%[[WIDE_C]], %[[WIDE_C]] :
func.func @narrow_addends(%x: tensor<?x8xf32>, %a: tensor<?x8xbf16>, %b: tensor<?x8xbf16>,
                          %c: tensor<?x8xbf16>, %s: tensor<bf16>) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  %wide_a = nn.cast %a : tensor<?x8xbf16> -> tensor<?x8xf32>
  %wide_b = nn.cast %b : tensor<?x8xbf16> -> tensor<?x8xf32>
  %wide_c = nn.cast %c : tensor<?x8xbf16> -> tensor<?x8xf32>
  %wide_s = nn.cast %s : tensor<bf16> -> tensor<f32>
  %y = nn.add %x, %wide_a : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %z = nn.add %wide_a, %y : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %p = nn.add %z, %wide_b : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %q = nn.mul %p, %wide_b : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %r = nn.add %q, %wide_s : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
  %d = nn.add %wide_c, %wide_c : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  return %r, %d : tensor<?x8xf32>, tensor<?x8xf32>
}

// -----

// A sum that reads a narrow addend may lie in memory as that one does.
// CHECK-LABEL: func @strided_narrow_gradient
// CHECK:       %[[TURNED:.+]] = exec.dense "aten::transpose.int"
// CHECK:       %[[SUM:.+]] = exec.dense "aten::add.Tensor"(%[[TURNED]], %{{.+}} : tensor<5x3xbf16>, tensor<5x3xf32>)
// CHECK:       %[[PLAIN:.+]] = exec.dense "aten::contiguous"(%[[SUM]]
// CHECK:       exec.dense "aten::_fused_adamw_.tensor_lr"({{.+}} %[[PLAIN]],
func.func @strided_narrow_gradient(%p: tensor<5x3xf32>, %g: tensor<3x5xbf16>, %h: tensor<5x3xf32>,
                                   %s: tensor<f32>) -> tensor<5x3xf32> {
  %turned = nn.transpose %g 0, 1 : (tensor<3x5xbf16>) -> tensor<5x3xbf16>
  %wide = nn.cast %turned : tensor<5x3xbf16> -> tensor<5x3xf32>
  %sum = nn.add %wide, %h : (tensor<5x3xf32>, tensor<5x3xf32>) -> tensor<5x3xf32>
  %u:3 = nn.adamw (%p) gradients(%sum) moments(%p), (%p) step %s rate %s
    decay 0.1 betas [0.9, 0.95] epsilon 1.0e-8 : (tensor<5x3xf32>), tensor<f32>, tensor<f32>
  return %u#0 : tensor<5x3xf32>
}

// -----

// A norm of many gradients: small ones are squared and added as one vector, as
// each would cost a call of its own; of an unknown size none is small.
// CHECK-LABEL: func @norm_of_many
// CHECK-SAME:  (%[[A:.+]]: tensor<8xf32>, %[[B:.+]]: tensor<768x768xf32>, %[[C:.+]]: tensor<4x4xf32>, %[[D:.+]]: tensor<?xf32>)
// CHECK:       %[[FLAT_A:.+]] = exec.dense "aten::reshape"(%[[A]]
// CHECK:       %[[FLAT_B:.+]] = exec.dense "aten::reshape"(%[[B]]
// CHECK:       %[[FLAT_C:.+]] = exec.dense "aten::reshape"(%[[C]]
// CHECK:       %[[FLAT_D:.+]] = exec.dense "aten::reshape"(%[[D]]
// CHECK:       %[[SMALL:.+]] = exec.dense "aten::cat"(%[[FLAT_A]], %[[FLAT_C]] : tensor<?xf32>, tensor<?xf32>)
// CHECK-SAME:  arguments [#exec.tensors<[0, 1]>, 0] -> tensor<?xf32>
// CHECK:       %[[DOT_B:.+]] = exec.dense "aten::dot"(%[[FLAT_B]], %[[FLAT_B]]
// CHECK:       %[[DOT_D:.+]] = exec.dense "aten::dot"(%[[FLAT_D]], %[[FLAT_D]]
// CHECK:       %[[DOT:.+]] = exec.dense "aten::dot"(%[[SMALL]], %[[SMALL]]
// CHECK:       exec.dense "aten::stack"(%[[DOT_B]], %[[DOT_D]], %[[DOT]] :
func.func @norm_of_many(%a: tensor<8xf32>, %b: tensor<768x768xf32>, %c: tensor<4x4xf32>,
                        %d: tensor<?xf32>) -> tensor<f32> {
  %n = nn.global_norm %a, %b, %c, %d
    : (tensor<8xf32>, tensor<768x768xf32>, tensor<4x4xf32>, tensor<?xf32>) -> tensor<f32>
  return %n : tensor<f32>
}
