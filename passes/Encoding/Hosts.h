//===- Hosts.h - What hosts add to a score ----------------------*- C++ -*-===//
//
// An encoding may work on what other encodings, its hosts, add to a score: a
// network over the terms of a Kerple bias, for example. `pos.host` stands for
// the sum of these terms.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_PASSES_ENCODING_HOSTS_H
#define SEXTANT_PASSES_ENCODING_HOSTS_H

#include "dialects/Pos/IR/Pos.h"

namespace sextant::passes {

/// Replaces `pos.host` in a score payload by the sum of what `hosts` add to a
/// score, or by 0 without any. `hosts` are scalar score sites of the owner,
/// which are used up. Fails with a diagnostic at a host that is not additive.
mlir::LogicalResult joinHosts(pos::ScoreOp score,
                              llvm::ArrayRef<pos::ScoreOp> hosts,
                              pos::SitesOwnerInterface owner);

/// Hosts are for definitions that ask for them; their instances' names differ.
/// Fails with a diagnostic at `user`.
mlir::LogicalResult verifyHosts(pos::UseAttr use, pos::EncodingOp definition,
                                mlir::Location user);

/// Fails with a diagnostic at the site by which a definition cannot be a host:
/// one that is no scalar score.
mlir::LogicalResult verifyHost(pos::EncodingOp definition);

} // namespace sextant::passes

#endif // SEXTANT_PASSES_ENCODING_HOSTS_H
