//===- HoistForm.cpp - How a hoisted value is kept ------------------------===//
//
// The form follows from the axes alone, after batch and head are taken away.
//
//===----------------------------------------------------------------------===//

#include "passes/Analysis/HoistForm.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::passes;

using pos::Axis;
using pos::AxisSet;

std::optional<HoistForm> passes::getHoistForm(AxisSet axes) {
  AxisSet rest = axes - AxisSet{Axis::batch, Axis::head};
  if (rest.empty())
    return HoistForm::HeadScalar;
  if (rest == AxisSet(Axis::offset))
    return HoistForm::OffsetTable;
  if (rest == AxisSet(Axis::query))
    return HoistForm::QueryVector;
  if (rest == AxisSet(Axis::key))
    return HoistForm::KeyVector;
  if (AxisSet{Axis::self, Axis::lane}.contains(rest) ||
      rest == AxisSet{Axis::query, Axis::lane} ||
      rest == AxisSet{Axis::key, Axis::lane})
    return HoistForm::RowLaneTable;
  return std::nullopt;
}

StringRef passes::stringifyHoistForm(HoistForm form) {
  switch (form) {
  case HoistForm::HeadScalar:
    return "head scalar";
  case HoistForm::OffsetTable:
    return "offset table";
  case HoistForm::QueryVector:
    return "query vector";
  case HoistForm::KeyVector:
    return "key vector";
  case HoistForm::RowLaneTable:
    return "row-lane table";
  }
  llvm_unreachable("a form is one of those above");
}
