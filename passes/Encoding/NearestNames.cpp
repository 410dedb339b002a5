//===- NearestNames.cpp - Suggestions for a name that is unknown ----------===//
//
// Names that begin with the text come first, then those of the least edit
// distance.
//
//===----------------------------------------------------------------------===//

#include "passes/Encoding/NearestNames.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include <tuple>

using namespace llvm;

std::string sextant::passes::nearestNames(StringRef name,
                                          ArrayRef<std::string> known) {
  if (known.empty())
    return "; there is none";
  // A name that was not written to its end comes before those of like letters.
  SmallVector<std::tuple<bool, unsigned, StringRef>> ranked;
  for (StringRef candidate : known)
    ranked.emplace_back(!candidate.starts_with_insensitive(name),
                        name.edit_distance_insensitive(candidate), candidate);
  llvm::sort(ranked);
  ranked.truncate(std::min<size_t>(ranked.size(), 3));
  std::string text =
      ranked.size() == 1 ? "; the only one is " : "; the nearest are ";
  for (auto [i, entry] : llvm::enumerate(ranked))
    text += (i ? ", '" : "'") + std::get<StringRef>(entry).str() + "'";
  return text;
}
