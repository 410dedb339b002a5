//===- Pos.td - The pos dialect -----------------------------------------------===//
//
// The pos dialect holds attention, the places at which encodings act on it, and
// the definitions of encodings. This file only includes those of every topic.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_POS_TD
#define SEXTANT_POS_TD

include "dialects/Pos/IR/PosBase.td"
include "dialects/Pos/IR/PosAttrs.td"
include "dialects/Pos/IR/PosInterfaces.td"
include "dialects/Pos/IR/PosDefinition.td"
include "dialects/Pos/IR/PosContext.td"
include "dialects/Pos/IR/PosSites.td"
include "dialects/Pos/IR/PosHeads.td"
include "dialects/Pos/IR/PosAttention.td"
include "dialects/Pos/IR/PosFunctions.td"

#endif // SEXTANT_POS_TD
