//===- ChunkCopies.cpp - Small things that come with each tile ------------===//

#include "codegen/CUDA/Sm80/ChunkCopies.h"
#include "codegen/CUDA/Sm80/Teams.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

static constexpr int64_t chunkBytes = wordBytes * windowUnit;

/// One number where teams have parts of their own, and another one where not.
Value ChunkCopies::choose(int64_t packed, int64_t other) {
  Value ofBlock = thread.constant(other);
  return isPacked && packed != other
             ? thread.select(isPacked, thread.constant(packed), ofBlock)
             : ofBlock;
}

void ChunkCopies::enter(ArrayRef<ChunkPart> parts) {
  chunks.clear();
  int64_t ofBlock = 0, ofTeam = 0;
  for (const ChunkPart &part : parts) {
    assert(part.words % windowUnit == 0 && part.teamWords % windowUnit == 0 &&
           "parts are whole chunks");
    ofBlock += part.words / windowUnit;
    ofTeam += part.teamWords / windowUnit;
  }
  int64_t passes = llvm::divideCeil(ofBlock, tile.countThreads());
  if (isPacked)
    passes =
        std::max<int64_t>(passes, llvm::divideCeil(ofTeam, tile.teamThreads));
  for (int64_t pass = 0; pass < passes; ++pass)
    chunks.push_back(getChunk(parts, pass));
}

/// Chunks of a block, or of a team, are counted through its parts.
ChunkCopies::Chunk ChunkCopies::getChunk(ArrayRef<ChunkPart> parts,
                                         int64_t pass) {
  KernelBuilder &kernel = thread.kernel;
  TeamPlace place = TeamPlace::get(thread, tile);
  Value own = isPacked ? thread.select(isPacked, place.member, thread.thread)
                       : thread.thread;
  own = thread.add(own,
                   choose(pass * tile.teamThreads, pass * tile.countThreads()));
  Chunk chunk;
  int64_t ofBlock = 0, ofTeam = 0;
  for (const ChunkPart &part : parts) {
    Value number = thread.sub(own, choose(ofTeam, ofBlock));
    Value from = kernel.advance(
        part.from, {kernel.mul(kernel.fromI32(number), windowUnit)},
        kernel.i32);
    Value to = thread.add(thread.mul(number, chunkBytes), part.to);
    if (isPacked) {
      Value before = thread.mul(place.team, part.teamWords * wordBytes);
      to = thread.select(isPacked, thread.add(to, before), to);
    }
    Value isBefore = chunk.exists;
    ofBlock += part.words / windowUnit;
    ofTeam += part.teamWords / windowUnit;
    chunk.exists = thread.less(own, choose(ofTeam, ofBlock));
    auto select = [&](Value before, Value here) {
      return isBefore ? thread.select(isBefore, before, here) : here;
    };
    chunk.from = select(chunk.from, from);
    (part.isBackward ? chunk.isBackward : chunk.isForward) = chunk.exists;
    chunk.to = select(chunk.to, to);
  }
  return chunk;
}

void ChunkCopies::copy(Value firstColumn, Value to) {
  KernelBuilder &kernel = thread.kernel;
  for (const Chunk &chunk : chunks)
    kernel.when(chunk.exists, [&] {
      Value before = thread.sub(thread.constant(0), firstColumn);
      Value step = chunk.isForward ? firstColumn : before;
      if (chunk.isForward && chunk.isBackward)
        step = thread.select(chunk.isForward, firstColumn, before);
      thread.copy(
          thread.advance(to, chunk.to),
          kernel.advance(chunk.from, {kernel.fromI32(step)}, kernel.i32),
          chunkBytes, thread.constant(chunkBytes));
    });
}
