// A learned vector per position, added to the embedding. Sequences that reach
// farther than `train_length` (if it is not 0) stretch the table's first
// train_length rows over their length L, the greatest position plus one, by linear
// interpolation; without it, positions outside the table take its nearest row.
//
// For images `grid_rows` and `grid_columns` say that the table is a grid, row by
// row, and positions are (row, column). The grid of a call reaches to its greatest
// row and column; where its size differs, the table is resized to it by bicubic
// convolution with corners not aligned, as vision transformers do (Dosovitskiy et
// al. 2021, section 3.2; the kernel's parameter is -3/4, edges are repeated). A
// token with a negative coordinate, such as a class token, is left as it is.
pos.encoding @learned attributes {
  formula = "x + table[p]; longer than train_length: x + table[max((p + 1/2) train_length / L - 1/2, 0)], interpolated; on a grid: bicubic",
  paper = "Gehring et al. 2017, Convolutional Sequence to Sequence Learning, section 3.1"
} {
  %rows = pos.option "rows" : i32 = 1024 : i32 at_least 1
  %train_length = pos.option "train_length" : i32 = 0 : i32 at_least 0
  %grid_rows = pos.option "grid_rows" : i32 = 0 : i32 at_least 0 at_most 32768
  %grid_columns = pos.option "grid_columns" : i32 = 0 : i32 at_least 0 at_most 32768
  %cells = arith.muli %grid_rows, %grid_columns : i32
  pos.require %cells at_most %rows, "the grid has more cells than the table has rows"
  pos.require %grid_rows at_most %cells, "grid_columns is 0, but grid_rows is not"
  pos.require %grid_columns at_most %cells, "grid_rows is 0, but grid_columns is not"
  pos.require %train_length at_most %rows, "train_length is more than the table has rows"
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
  %is_grid = arith.cmpi sgt, %cells, %zero : i32
  %four = arith.constant 4 : i32
  %bottom = arith.subi %grid_rows, %one : i32
  %right = arith.subi %grid_columns, %one : i32

  pos.rows of [embedding] single {
  ^bb0(%x: f32):
    %p = pos.coord self
    %t = pos.lane
    %at_least = arith.maxsi %p, %zero : i32
    %row = arith.minsi %at_least, %last_row : i32
    %direct = pos.read %table[%row, %t] : tensor<?x?xf32>

    %greatest = pos.bound greatest key
    %length = arith.addi %greatest, %one : i32
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

    // Where the row lies in the table's grid: a whole number and a part.
    %r = pos.coord self
    %r_last = pos.bound greatest key
    %r_count = arith.addi %r_last, %one : i32
    %r_countf = arith.sitofp %r_count : i32 to f32
    %r_sizef = arith.sitofp %grid_rows : i32 to f32
    %r_step = arith.divf %r_sizef, %r_countf : f32
    %rf = arith.sitofp %r : i32 to f32
    %r_middle = arith.addf %rf, %half : f32
    %r_scaled = arith.mulf %r_middle, %r_step : f32
    %r_source = arith.subf %r_scaled, %half : f32
    %r_whole = math.floor %r_source : f32
    %r_part = arith.subf %r_source, %r_whole : f32
    %r_cell = arith.fptosi %r_whole : f32 to i32

    // Where the column lies in the table's grid: a whole number and a part.
    %c = pos.coord self axis 1
    %c_last = pos.bound greatest key axis 1
    %c_count = arith.addi %c_last, %one : i32
    %c_countf = arith.sitofp %c_count : i32 to f32
    %c_sizef = arith.sitofp %grid_columns : i32 to f32
    %c_step = arith.divf %c_sizef, %c_countf : f32
    %cf = arith.sitofp %c : i32 to f32
    %c_middle = arith.addf %cf, %half : f32
    %c_scaled = arith.mulf %c_middle, %c_step : f32
    %c_source = arith.subf %c_scaled, %half : f32
    %c_whole = math.floor %c_source : f32
    %c_part = arith.subf %c_source, %c_whole : f32
    %c_cell = arith.fptosi %c_whole : f32 to i32

    // Four by four cells, each with the product of both axes' weights.
    %onef = arith.constant 1.0 : f32
    %kernel = arith.constant -0.75 : f32
    %near3 = arith.constant 1.25 : f32
    %near2 = arith.constant 2.25 : f32
    %five = arith.constant 5.0 : f32
    %eight = arith.constant 8.0 : f32
    %fourf = arith.constant 4.0 : f32
    %resized = pos.sum to %four {
    ^bb0(%i: i32):
      %r_tapf = arith.sitofp %i : i32 to f32
      %r_from = arith.subf %r_tapf, %onef : f32
      %r_signed = arith.subf %r_from, %r_part : f32
      %r_d = math.absf %r_signed : f32
      %r_d2 = arith.mulf %r_d, %r_d : f32
      %r_n1 = arith.mulf %near3, %r_d : f32
      %r_n2 = arith.subf %r_n1, %near2 : f32
      %r_n3 = arith.mulf %r_n2, %r_d2 : f32
      %r_near = arith.addf %r_n3, %onef : f32
      %r_f1 = arith.subf %r_d, %five : f32
      %r_f2 = arith.mulf %r_f1, %r_d : f32
      %r_f3 = arith.addf %r_f2, %eight : f32
      %r_f4 = arith.mulf %r_f3, %r_d : f32
      %r_f5 = arith.subf %r_f4, %fourf : f32
      %r_far = arith.mulf %r_f5, %kernel : f32
      %r_is_near = arith.cmpf ole, %r_d, %onef : f32
      %r_weight = arith.select %r_is_near, %r_near, %r_far : f32
      %r_before = arith.addi %r_cell, %i : i32
      %r_at = arith.subi %r_before, %one : i32
      %r_low = arith.maxsi %r_at, %zero : i32
      %r_in = arith.minsi %r_low, %bottom : i32
      %first_cell = arith.muli %r_in, %grid_columns : i32
      %line = pos.sum to %four {
      ^bb0(%j: i32):
        %c_tapf = arith.sitofp %j : i32 to f32
        %c_from = arith.subf %c_tapf, %onef : f32
        %c_signed = arith.subf %c_from, %c_part : f32
        %c_d = math.absf %c_signed : f32
        %c_d2 = arith.mulf %c_d, %c_d : f32
        %c_n1 = arith.mulf %near3, %c_d : f32
        %c_n2 = arith.subf %c_n1, %near2 : f32
        %c_n3 = arith.mulf %c_n2, %c_d2 : f32
        %c_near = arith.addf %c_n3, %onef : f32
        %c_f1 = arith.subf %c_d, %five : f32
        %c_f2 = arith.mulf %c_f1, %c_d : f32
        %c_f3 = arith.addf %c_f2, %eight : f32
        %c_f4 = arith.mulf %c_f3, %c_d : f32
        %c_f5 = arith.subf %c_f4, %fourf : f32
        %c_far = arith.mulf %c_f5, %kernel : f32
        %c_is_near = arith.cmpf ole, %c_d, %onef : f32
        %c_weight = arith.select %c_is_near, %c_near, %c_far : f32
        %c_before = arith.addi %c_cell, %j : i32
        %c_at = arith.subi %c_before, %one : i32
        %c_low = arith.maxsi %c_at, %zero : i32
        %c_in = arith.minsi %c_low, %right : i32
        %cell = arith.addi %first_cell, %c_in : i32
        %e = pos.read %table[%cell, %t] : tensor<?x?xf32>
        %we = arith.mulf %c_weight, %e : f32
        pos.yield %we : f32
      } : f32
      %wl = arith.mulf %r_weight, %line : f32
      pos.yield %wl : f32
    } : f32
    %below = arith.cmpi sge, %r, %zero : i32
    %beside = arith.cmpi sge, %c, %zero : i32
    %inside = arith.andi %below, %beside : i1
    %on_grid = arith.select %inside, %resized, %zerof : f32

    %along = arith.select %stretched, %mixed, %direct : f32
    %value = arith.select %is_grid, %on_grid, %along : f32
    %u = arith.addf %x, %value : f32
    pos.yield %u : f32
  }
}
