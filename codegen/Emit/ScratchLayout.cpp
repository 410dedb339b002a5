//===- ScratchLayout.cpp - Scratch memory of a kernel ---------------------===//

#include "codegen/Emit/ScratchLayout.h"
#include "mlir/IR/Remarks.h"

using namespace mlir;
using namespace sextant::codegen;

int64_t ScratchLayout::reserve(int64_t elements, StringRef name) {
  int64_t words = llvm::alignTo(elements, 16);
  bool fits = hasNear() && nearEnd + words + heldWords <= nearWords;
  int64_t &end = fits ? nearEnd : farEnd;
  if (hasNear() && !fits)
    farBytes[name] += 4 * words;
  int64_t first = end;
  end += words;
  return first;
}

int64_t ScratchLayout::reserveFar(int64_t elements) {
  int64_t first = farEnd;
  farEnd += llvm::alignTo(elements, 16);
  return first;
}

int64_t ScratchLayout::reserveHeld(int64_t elements, StringRef name) {
  int64_t words = llvm::alignTo(elements, 16);
  heldWords = std::max<int64_t>(heldWords - words, 0);
  return reserve(elements, name);
}

void ScratchLayout::tell(const Lowering &lowering, StringRef suffix) const {
  bool isWritten = nearEnd != 0 || !farBytes.empty(); // else there was one
  if (!hasNear() || !isWritten)
    return;
  std::string name = lowering.getKernelName(suffix);
  auto options = remark::RemarkOpts::name("near-memory")
                     .category("scratch")
                     .function(name);
  if (farBytes.empty()) {
    remark::passed(lowering.getLoc(), options)
        << remark::metric("NearBytes", getNearBytes())
        << remark::metric("FarBytes", 0);
    return;
  }
  std::string names;
  llvm::raw_string_ostream stream(names);
  llvm::interleave(
      farBytes, stream,
      [&](const auto &buffer) {
        stream << buffer.first << " (" << buffer.second << ")";
      },
      ", ");
  remark::missed(lowering.getLoc(), options)
      << remark::metric("NearBytes", getNearBytes())
      << remark::metric("FarBytes", getBytes())
      << remark::reason("of {0} bytes that an item may have near, {1} are "
                        "left, too few for {2}",
                        4 * nearWords, 4 * (nearWords - nearEnd), names);
}
