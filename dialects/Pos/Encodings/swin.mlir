// A learned bias per offset on a grid of rows x columns, as in Swin windows.
// Positions are (row, column), two axes. Offsets beyond the grid, on either
// axis, take the entry at the table's edge.
pos.encoding @swin attributes {
  formula = "s + table[(dy + rows - 1)(2 columns - 1) + dx + columns - 1, h], (dy, dx) = query - key",
  paper = "Liu et al. 2021, Swin Transformer, section 3.2, relative position bias"
} {
  %rows = pos.option "rows" : i32 = 7 : i32 at_least 1 at_most 16384
  %columns = pos.option "columns" : i32 = 7 : i32 at_least 1 at_most 16384
  %heads = pos.extent heads
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %zero = arith.constant 0 : i32
  %zerof = arith.constant 0.0 : f32
  %deviation = arith.constant 0.02 : f32
  %last_row = arith.subi %rows, %one : i32
  %last_column = arith.subi %columns, %one : i32
  %rows2 = arith.muli %two, %rows : i32
  %columns2 = arith.muli %two, %columns : i32
  %height = arith.subi %rows2, %one : i32
  %width = arith.subi %columns2, %one : i32
  %size = arith.muli %height, %width : i32
  %first_row = arith.subi %zero, %last_row : i32
  %first_column = arith.subi %zero, %last_column : i32
  %middle = arith.muli %last_row, %width : i32
  %centre = arith.addi %middle, %last_column : i32
  %table = pos.param "table" : tensor<?x?xf32> dims(%size, %heads)
    init normal(%zerof, %deviation)

  pos.score {
  ^bb0(%s: f32):
    %h = pos.head
    %y = pos.offset
    %x = pos.offset axis 1
    // Offsets are key - query (C5): the index runs backwards from the centre.
    %y0 = arith.maxsi %y, %first_row : i32
    %y1 = arith.minsi %y0, %last_row : i32
    %x0 = arith.maxsi %x, %first_column : i32
    %x1 = arith.minsi %x0, %last_column : i32
    %lines = arith.muli %y1, %width : i32
    %step = arith.addi %lines, %x1 : i32
    %index = arith.subi %centre, %step : i32
    %bias = pos.read %table[%index, %h] : tensor<?x?xf32>
    %t = arith.addf %s, %bias : f32
    pos.yield %t : f32
  }
}
