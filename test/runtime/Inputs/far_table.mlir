// A bias per distance, from a table of 16 rows.
func.func @forward(
    %q: tensor<1x2x?x16xf32> {exec.name = "query", exec.dims = ["", "", "length", ""]},
    %slopes: tensor<2xf32> {exec.name = "slopes"},
    %table: tensor<16xf32> {exec.name = "table"})
    -> (tensor<1x2x?x16xf32> {exec.name = "output"}, tensor<1x2x?xf32> {exec.name = "lse"}) {
  %o, %lse = pos.attention %q, %q, (%q)
    uses [#pos.use<@causal, "causal">, #pos.use<@far, "far">]
    params(%slopes, %table : tensor<2xf32>, tensor<16xf32>)
    : tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>, (tensor<1x2x?x16xf32>)
    -> (tensor<1x2x?x16xf32>), tensor<1x2x?xf32>
  return %o, %lse : tensor<1x2x?x16xf32>, tensor<1x2x?xf32>
}

pos.encoding @far {
  %heads = pos.extent heads
  %rows = arith.constant 16 : i32
  %slopes = pos.param "slopes" : tensor<?xf32> dims(%heads)
  %table = pos.param "table" : tensor<?xf32> dims(%rows)
  pos.score {
  ^bb0(%s: f32):
    %h = pos.head
    %o = pos.offset
    %n = math.absi %o : i32
    %m = pos.read %slopes[%h] : tensor<?xf32>
    %a = pos.read %table[%n] : tensor<?xf32>
    %b = arith.mulf %m, %a : f32
    %t = arith.addf %s, %b : f32
    pos.yield %t : f32
  }
}
