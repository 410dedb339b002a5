// Ranges of options, which their defaults keep.
// RUN: sextant-opt %s --split-input-file --verify-diagnostics

pos.encoding @option_range {
  // expected-error @below {{default 0 : i32 must be at least 1}}
  %a = pos.option "size" : i32 = 0 : i32 at_least 1
}

// -----

pos.encoding @option_finite {
  // expected-error @below {{must be finite}}
  %a = pos.option "size" : f32 = 0x7F800000 : f32
}

// -----

pos.encoding @option_two_limits {
  // expected-error @below {{has two lower limits: above and at_least}}
  %a = pos.option "size" : i32 = 4 : i32 above 0 at_least 1
}

// -----

pos.encoding @option_multiple_of_f32 {
  // expected-error @below {{multiple_of takes a positive number and is for options of type i32}}
  %a = pos.option "size" : f32 = 4.0 : f32 multiple_of 2
}

// -----

pos.encoding @option_multiple_of_zero {
  // expected-error @below {{multiple_of takes a positive number and is for options of type i32}}
  %a = pos.option "size" : i32 = 4 : i32 multiple_of 0
}

// -----

pos.encoding @option_range_of_choices {
  // expected-error @below {{only a number has a range}}
  %a = pos.option "pairing" : i32 = "half" of ["half"] at_most 1
}
