// A learned vector per position, added to the embedding. Longer sequences than
// `train_length` (if it is not 0) stretch the table's first train_length rows
// over their length by linear interpolation; without it, positions outside the
// table take its nearest row.
pos.encoding @learned attributes {
  formula = "x + table[p]; longer than train_length: x + table[max((p + 1/2) train_length / L - 1/2, 0)], interpolated",
  paper = "Gehring et al. 2017, Convolutional Sequence to Sequence Learning, section 3.1"
} {
  %rows = pos.option "rows" : i32 = 1024 : i32
  %train_length = pos.option "train_length" : i32 = 0 : i32
  %width = pos.extent model
  %zerof = arith.constant 0.0 : f32
  %deviation = arith.constant 0.02 : f32
  %table = pos.param "table" : tensor<?x?xf32> dims(%rows, %width)
    init normal(%zerof, %deviation) scope model
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %half = arith.constant 0.5 : f32
  %last_row = arith.subi %rows, %one : i32
  %last_trained = arith.subi %train_length, %one : i32
  %last = arith.minsi %last_row, %last_trained : i32
  %may = arith.cmpi sgt, %train_length, %zero : i32

  pos.rows of [embedding] single {
  ^bb0(%x: f32):
    %p = pos.coord self
    %t = pos.lane
    %at_least = arith.maxsi %p, %zero : i32
    %row = arith.minsi %at_least, %last_row : i32
    %direct = pos.read %table[%row, %t] : tensor<?x?xf32>

    %length = pos.extent query
    %longer = arith.cmpi sgt, %length, %train_length : i32
    %stretched = arith.andi %may, %longer : i1
    %pf = arith.sitofp %p : i32 to f32
    %lengthf = arith.sitofp %length : i32 to f32
    %trainedf = arith.sitofp %train_length : i32 to f32
    %middle = arith.addf %pf, %half : f32
    %scaled = arith.mulf %middle, %trainedf : f32
    %quotient = arith.divf %scaled, %lengthf : f32
    %corner = arith.subf %quotient, %half : f32
    %source = arith.maximumf %corner, %zerof : f32
    %whole = arith.fptosi %source : f32 to i32
    %wholef = arith.sitofp %whole : i32 to f32
    %part = arith.subf %source, %wholef : f32
    %after = arith.addi %whole, %one : i32
    %first = arith.minsi %whole, %last : i32
    %low = arith.maxsi %first, %zero : i32
    %second = arith.minsi %after, %last : i32
    %high = arith.maxsi %second, %zero : i32
    %a = pos.read %table[%low, %t] : tensor<?x?xf32>
    %b = pos.read %table[%high, %t] : tensor<?x?xf32>
    %difference = arith.subf %b, %a : f32
    %step = arith.mulf %part, %difference : f32
    %mixed = arith.addf %a, %step : f32

    %value = arith.select %stretched, %mixed, %direct : f32
    %u = arith.addf %x, %value : f32
    pos.yield %u : f32
  }
}
