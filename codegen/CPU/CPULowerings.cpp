//===- CPULowerings.cpp - The kernels of CPU targets ----------------------===//

#include "codegen/CPU/CPULowerings.h"
#include "codegen/CPU/BackwardLowering.h"
#include "codegen/CPU/ForwardLowering.h"
#include "codegen/Rows/MapRows.h"

using namespace sextant::codegen;

TargetLowerings sextant::codegen::getCPULowerings() {
  TargetLowerings lowerings;
  lowerings.attention = lowerForward;
  lowerings.attentionBackward = lowerBackward;
  lowerings.mapRows = lowerMapRows;
  lowerings.mapRowsBackward = lowerMapRowsBackward;
  return lowerings;
}
