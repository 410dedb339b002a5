//===- Teams.h - Threads that may have a head of their own ------*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_CUDA_SM80_TEAMS_H
#define SEXTANT_CODEGEN_CUDA_SM80_TEAMS_H

#include "codegen/CUDA/Sm80/ScoreTile.h"
#include "codegen/CUDA/Sm80/ThreadBuilder.h"

namespace sextant::codegen {

/// Where a thread stands among those that may share a head (`teamThreads` of a
/// tile): the number of its team in the block, and its own in the team (i32).
struct TeamPlace {
  mlir::Value team, member;

  static TeamPlace get(ThreadBuilder &thread, const ScoreTile &tile) {
    if (!tile.hasTeamsOfRows())
      return {thread.warp, thread.lane};
    return {thread.div(thread.thread, tile.teamThreads),
            thread.rem(thread.thread, tile.teamThreads)};
  }
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_SM80_TEAMS_H
