//===- Listing.h - Machine code of a GPU as nvdisasm lists it ---*- C++ -*-===//
//
// Without a GPU, machine code still tells what a kernel takes of one: these
// functions read a listing into basic blocks and find the loop in which a
// kernel spends its time.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_TOOLS_SEXTANT_PROF_LISTING_H
#define SEXTANT_TOOLS_SEXTANT_PROF_LISTING_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <string>
#include <vector>

namespace sextant::tools {

/// Names of instructions with their modifiers ("LDSM.16.MT88.4"), parts of the
/// text that was read.
using Instructions = std::vector<llvm::StringRef>;

/// Instructions that run one after the other, and the blocks that may follow.
struct BasicBlock {
  Instructions instructions;
  std::vector<size_t> next;
};

/// A kernel of a listing.
struct KernelListing {
  std::string kernel;
  int64_t registers = 0; ///< of a thread: one more than the highest in use
  std::vector<BasicBlock> blocks;

  /// How many instructions of these kinds there are, of whatever modifiers.
  int64_t count(llvm::ArrayRef<llvm::StringRef> kinds) const;
};

/// The kernels of a listing in its order; `text` must outlive them.
std::vector<KernelListing> parseListing(llvm::StringRef text);

/// "LDSM" of "LDSM.16.MT88.4".
llvm::StringRef getInstructionKind(llvm::StringRef name);

/// How many of some instructions are of these kinds.
int64_t countKinds(const Instructions &instructions,
                   llvm::ArrayRef<llvm::StringRef> kinds);

/// What one pass of the main loop runs; empty without a loop.
///
/// The main loop is the one with the most products of matrices, the innermost
/// of those that have as many; in a kernel without such products the innermost
/// loop with the most arithmetic. It has paths that are rarely taken: rows that
/// are not aligned, tiles of which the mask shows a part. The pass is along the
/// path with the most products (or arithmetic), of these one with the most
/// copies to shared memory, of these one with the fewest loops and calls,
/// and of these the shortest.
Instructions findMainLoop(const KernelListing &listing);

/// Likewise what a pass of each loop runs that multiplies no matrices but
/// stands in one that does.
std::vector<Instructions> findLoopsInside(const KernelListing &listing);

} // namespace sextant::tools

#endif // SEXTANT_TOOLS_SEXTANT_PROF_LISTING_H
