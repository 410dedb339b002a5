//===- SitePoint.h - Where in an attention a payload stands -----*- C++ -*-===//
//
// This file holds the vocabulary that context ops, analyses and kernels share:
// sets of axes, the point at which a payload is evaluated, and the bounds of a
// tile.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_DIALECTS_POS_IR_SITEPOINT_H
#define SEXTANT_DIALECTS_POS_IR_SITEPOINT_H

#include "dialects/Pos/IR/PosEnums.h"
#include "dialects/Pos/IR/TileRange.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Value.h"

namespace sextant::pos {

/// A set of axes that a value varies with.
class AxisSet {
public:
  constexpr AxisSet() = default;
  constexpr AxisSet(Axis axis) : bits(1u << static_cast<unsigned>(axis)) {}
  constexpr AxisSet(std::initializer_list<Axis> axes) {
    for (Axis axis : axes)
      bits |= 1u << static_cast<unsigned>(axis);
  }
  constexpr AxisSet operator|(AxisSet other) const {
    return fromBits(bits | other.bits);
  }
  constexpr AxisSet operator-(AxisSet other) const {
    return fromBits(bits & ~other.bits);
  }
  AxisSet &operator|=(AxisSet other) { return *this = *this | other; }
  constexpr bool operator==(const AxisSet &other) const = default;
  constexpr bool contains(AxisSet other) const {
    return (other.bits & ~bits) == 0;
  }
  constexpr bool intersects(AxisSet other) const { return bits & other.bits; }
  constexpr bool empty() const { return bits == 0; }

private:
  static constexpr AxisSet fromBits(unsigned bits) {
    AxisSet set;
    set.bits = bits;
    return set;
  }
  unsigned bits = 0;
};

/// A dimension of a parameter that an op of a payload indexes.
struct TableRead {
  mlir::Value table;
  unsigned dim;
  mlir::Value index;
};

/// The point at which a payload is evaluated. A value is a scalar or a vector
/// of lanes; the kernel that implements the point decides which axis the lanes
/// run along, and a payload combines both freely. All integers are i32 (or
/// vectors of i32), the scale has the compute type (C1).
class SitePoint {
public:
  virtual ~SitePoint() = default;
  virtual mlir::Value index(mlir::OpBuilder &builder, Side side) = 0;
  /// The row of the side's own tensor; of a key, its index.
  virtual mlir::Value tensorRow(mlir::OpBuilder &builder, Side side) = 0;
  virtual mlir::Value coord(mlir::OpBuilder &builder, Side side,
                            int64_t axis) = 0;
  virtual mlir::Value offset(mlir::OpBuilder &builder, int64_t axis) = 0;
  virtual mlir::Value bound(mlir::OpBuilder &builder, Bound bound, Side side,
                            int64_t axis) = 0;
  virtual mlir::Value head(mlir::OpBuilder &builder) = 0;
  virtual mlir::Value batch(mlir::OpBuilder &builder) = 0;
  virtual mlir::Value lane(mlir::OpBuilder &builder) = 0;
  virtual mlir::Value extent(mlir::OpBuilder &builder, Extent extent) = 0;
  virtual mlir::Value scale(mlir::OpBuilder &builder) = 0;
};

/// Bounds of a tile of (query, key) pairs within one head of one batch element.
class TileBounds {
public:
  virtual ~TileBounds() = default;
  virtual ValueRange32 index(mlir::OpBuilder &builder, Side side) = 0;
  virtual ValueRange32 coord(mlir::OpBuilder &builder, Side side,
                             int64_t axis) = 0;
  virtual mlir::Value head(mlir::OpBuilder &builder) = 0;
  virtual mlir::Value batch(mlir::OpBuilder &builder) = 0;
  virtual mlir::Value extent(mlir::OpBuilder &builder, Extent extent) = 0;
};

} // namespace sextant::pos

#endif // SEXTANT_DIALECTS_POS_IR_SITEPOINT_H
