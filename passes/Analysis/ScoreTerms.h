//===- ScoreTerms.h - What the last ops of a score payload add --*- C++ -*-===//
//
// Many payloads end in additions: score' = core(score) + t1 + t2 + ... Passes
// move the terms, and kernels have a shorter way where the core is the score
// itself.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_PASSES_ANALYSIS_SCORETERMS_H
#define SEXTANT_PASSES_ANALYSIS_SCORETERMS_H

#include "dialects/Pos/IR/Dependence.h"

namespace sextant::passes {

/// A value that is added to a score, or subtracted from it.
struct ScoreTerm {
  mlir::Value value;
  bool isNegated = false;
};

/// A payload yields `core` plus its terms, in order. The core is what depends
/// on the score: the score itself, where the payload is linear in it with slope
/// one, or what the last op that is not an addition makes of it.
struct ScoreTerms {
  mlir::Value core;
  llvm::SmallVector<ScoreTerm> terms;
};

/// The terms that vary neither with the score nor with the row of the query.
/// Fails where `payload` is none of one score: that of a scalar `pos.score`, or
/// the body of a `pos.for_heads` with one input.
mlir::FailureOr<ScoreTerms> getScoreTerms(mlir::Block &payload,
                                          pos::Dependence &dependence);

/// Whether `payload` is of one score and adds to it what is not made of it:
/// products with the row of the query as well.
bool isAdditive(mlir::Block &payload, pos::Dependence &dependence);

/// `value` plus a term.
mlir::Value combine(mlir::OpBuilder &builder, mlir::Value value,
                    ScoreTerm term);

} // namespace sextant::passes

#endif // SEXTANT_PASSES_ANALYSIS_SCORETERMS_H
