// Causal attention with a bias of the distance.
func.func @forward(
    %q: tensor<?x?x?x64xf32> {exec.name = "query", exec.dims = ["batch", "heads", "queries", ""]},
    %k: tensor<?x?x?x64xf32> {exec.name = "key", exec.dims = ["batch", "kv_heads", "keys", ""]},
    %v: tensor<?x?x?x64xf32> {exec.name = "value", exec.dims = ["batch", "kv_heads", "keys", ""]},
    %r1: tensor<?xf32> {exec.name = "r1", exec.dims = ["heads"]},
    %r2: tensor<?xf32> {exec.name = "r2", exec.dims = ["heads"]})
    -> (tensor<?x?x?x64xf32> {exec.name = "output"}, tensor<?x?x?xf32> {exec.name = "lse"}) {
  %o, %lse = pos.attention %q, %k, (%v)
    uses [#pos.use<@causal, "causal">, #pos.use<@bias, "bias">]
    params(%r1, %r2 : tensor<?xf32>, tensor<?xf32>)
    : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>, (tensor<?x?x?x64xf32>)
    -> (tensor<?x?x?x64xf32>), tensor<?x?x?xf32>
  return %o, %lse : tensor<?x?x?x64xf32>, tensor<?x?x?xf32>
}

pos.encoding @bias {
  %heads = pos.extent heads
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %r1 = pos.param "r1" : tensor<?xf32> dims(%heads) init uniform(%zero, %one)
  %r2 = pos.param "r2" : tensor<?xf32> dims(%heads) init uniform(%zero, %one)
  pos.score {
  ^bb0(%s: f32):
    %h = pos.head
    %o = pos.offset
    %n = math.absi %o : i32
    %d = arith.sitofp %n : i32 to f32
    %a = pos.read %r1[%h] : tensor<?xf32>
    %b = pos.read %r2[%h] : tensor<?xf32>
    %c = math.absf %b : f32
    %x = arith.mulf %c, %d : f32
    %l = math.log1p %x : f32
    %y = arith.mulf %a, %l : f32
    %t = arith.subf %s, %y : f32
    pos.yield %t : f32
  }
}
