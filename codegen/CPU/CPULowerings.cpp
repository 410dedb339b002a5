//===- CPULowerings.cpp - The kernels of CPU targets ----------------------===//

#include "codegen/CPU/CPULowerings.h"
#include "codegen/CPU/AttentionLowering.h"
#include "codegen/Rows/MapRows.h"

using namespace sextant::codegen;

TargetLowerings sextant::codegen::getCPULowerings() {
  TargetLowerings lowerings;
  lowerings.attention = lowerAttention;
  lowerings.attentionBackward = lowerAttentionBackward;
  lowerings.mapRows = lowerMapRows;
  lowerings.mapRowsBackward = lowerMapRowsBackward;
  return lowerings;
}
