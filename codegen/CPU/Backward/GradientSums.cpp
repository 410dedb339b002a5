//===- GradientSums.cpp - Sums of a score payload's gradients -------------===//

#include "codegen/CPU/Backward/GradientSums.h"
#include "codegen/Payload/Payload.h"
#include "codegen/Tables/OffsetRange.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

GradientSums::GradientSums(BackwardItem &at, BackwardPoint &point)
    : at(at), point(point) {
  for (auto [number, hoisted] : llvm::enumerate(launch.plan.hoisted))
    if (launch.tableGradients[number])
      sinks.push_back(
          {&hoisted, *launch.tableGradients[number], Source::Unused, Value()});
}

GradientSums::Sink *GradientSums::findSink(pos::HoistOp hoist) {
  const Hoisted *hoisted = launch.plan.find(hoist);
  Sink *sink = llvm::find_if(
      sinks, [&](const Sink &sink) { return sink.hoisted == hoisted; });
  return sink == sinks.end() ? nullptr : sink;
}

//===----------------------------------------------------------------------===//
// Tiles of cotangents
//===----------------------------------------------------------------------===//

Value GradientSums::reserveTile() {
  // Before the first row and after the last one there is a vector of zeros.
  int64_t elements = (shape.queries + 1) * shape.stride + kernel.width();
  return at.scratch.at(
      kernel, at.scratch.layout.reserveHeld(elements, "score gradients"),
      {kernel.width()});
}

void GradientSums::record(Value scoreGradient,
                          ArrayRef<HoistCotangent> cotangents, Index cell,
                          Index place) {
  for (const HoistCotangent &gradient : cotangents) {
    Sink *sink = findSink(gradient.hoist);
    if (!sink)
      continue;
    Value cotangent = gradient.value;
    Source source = Source::Own;
    if (cotangent == scoreGradient)
      source = Source::ScoreGradient;
    else if (auto negation = cotangent.getDefiningOp<arith::NegFOp>();
             negation && negation.getOperand() == scoreGradient)
      source = Source::Negated;
    if (sink->source == Source::Unused) {
      sink->source = source;
      if (source == Source::Own) {
        OpBuilder::InsertionGuard guard(kernel.builder);
        kernel.builder.setInsertionPointAfterValue(at.scratch.getLast());
        sink->tile = reserveTile();
      }
    }
    assert(sink->source == source && "a pullback is the same at all points");
    if (source == Source::Own)
      kernel.storeVector(kernel.broadcast(cotangent), sink->tile,
                         {cell, place});
  }
}

SmallVector<Value> GradientSums::getOwnTiles() const {
  SmallVector<Value> tiles;
  for (const Sink &sink : sinks)
    if (sink.source == Source::Own)
      tiles.push_back(sink.tile);
  return tiles;
}

bool GradientSums::usesScoreGradients() const {
  return llvm::any_of(sinks, [](const Sink &sink) {
    return sink.source == Source::ScoreGradient ||
           sink.source == Source::Negated;
  });
}

//===----------------------------------------------------------------------===//
// Sums
//===----------------------------------------------------------------------===//

void GradientSums::emitBlock(Value scoreGradients) {
  columns = kernel.mul(at.panelCount, shape.panel);
  bool edgesAreClear = false;
  for (const Sink &sink : sinks) {
    if (sink.source == Source::Unused)
      continue;
    bool isOwn = sink.source == Source::Own;
    Value tile = isOwn ? sink.tile : scoreGradients;
    // A key belongs to one chunk: its sums are those of the part.
    bool isKeys = sink.hoisted->form == HoistForm::KeyVector;
    Value to = arguments.getAddress(
        sink.tensor, {isKeys ? at.part : at.getSum(), at.batch, at.head});
    switch (sink.hoisted->form) {
    case HoistForm::OffsetTable:
      if (launch.sites.offsetRange) {
        addAtOffsets(sink, tile, to);
        break;
      }
      if (isOwn || !edgesAreClear)
        clearEdges(tile);
      edgesAreClear |= !isOwn;
      addDiagonals(sink, tile, to);
      break;
    case HoistForm::QueryVector:
      addRows(sink, tile, to);
      break;
    case HoistForm::KeyVector:
      addColumns(sink, tile, to);
      break;
    case HoistForm::HeadScalar:
      addAll(sink, tile, to);
      break;
    case HoistForm::RowLaneTable:
      llvm_unreachable("a score payload uses no table of a row map");
    }
  }
}

/// A sum with its addend, which is subtracted where the tile is that of -dS.
Value GradientSums::combine(const Sink &sink, Value old, Value addend) {
  return sink.source == Source::Negated ? kernel.subF(old, addend)
                                        : kernel.addF(old, addend);
}

/// Adds a sum, or a vector of sums, to those at `to`.
void GradientSums::addSum(Value addend, const Sink &sink, Value to) {
  Value old = kernel.load(addend.getType(), to);
  kernel.store(combine(sink, old, addend), to);
}

/// A vector of zeros on both sides of every row.
void GradientSums::clearEdges(Value tile) {
  Value zero = kernel.splatF32(0.0);
  kernel.loop(0, kernel.add(at.groupEnd, 1), 1, [&](Value row) {
    Value first = kernel.advance(tile, {kernel.mul(row, shape.stride)});
    kernel.storeVector(zero, first, {-kernel.width()});
    kernel.storeVector(zero, first, {columns});
  });
}

/// Offset table: entry (column - row). One vector of sums takes a skewed,
/// unaligned load per row, in four chains because additions take several
/// cycles.
void GradientSums::addDiagonals(const Sink &sink, Value tile, Value to) {
  int64_t width = kernel.width();
  Index lastQuery = kernel.sub(arguments.getSize(launch.sites.query, 2), 1);
  Index shift = kernel.sub(kernel.add(at.firstKey, lastQuery), at.firstQuery);
  Value entries = kernel.advance(to, {shift, launch.tablePadding()});
  Value zero = kernel.splatF32(0.0);
  kernel.loop(-shape.queries, columns, width, [&](Value diagonal) {
    Index low = kernel.max(0, kernel.sub(1 - width, diagonal));
    Index high =
        kernel.max(low, kernel.min(at.groupEnd, kernel.sub(columns, diagonal)));
    Index whole =
        kernel.add(low, kernel.mul(kernel.div(kernel.sub(high, low), 4), 4));
    Value first = kernel.advance(tile, {diagonal});
    auto load = [&](Index row, int64_t further) {
      return kernel.loadVector(first, {kernel.mul(row, shape.stride + 1),
                                       further * (shape.stride + 1)});
    };
    Values chains = kernel.loop(
        low, whole, 4, {zero, zero, zero, zero},
        [&](Value row, ValueRange carried) {
          Values next;
          for (int64_t chain = 0; chain < 4; ++chain)
            next.push_back(kernel.addF(carried[chain], load(row, chain)));
          return next;
        });
    Value sum = kernel.addF(kernel.addF(chains[0], chains[1]),
                            kernel.addF(chains[2], chains[3]));
    sum = kernel.loop(whole, high, 1, sum,
                      [&](Value row, ValueRange carried) -> Values {
                        return {kernel.addF(carried[0], load(row, 0))};
                      })[0];
    addSum(sum, sink, kernel.advance(entries, {diagonal}));
  });
}

/// Offset table under given positions: there is a table, or the value is pulled
/// back where it was computed.
void GradientSums::addAtOffsets(const Sink &sink, Value tile, Value to) {
  kernel.when(
      OffsetRange(kernel, arguments, *launch.sites.offsetRange).emitHasTables(),
      [&] {
        kernel.loop(0, columns, kernel.width(), [&](Value column) {
          addToTable(sink, kernel.advance(tile, {column}), to, column);
        });
      },
      [&] {
        point.setOffsets(TilePoint::Offsets::InPlace);
        kernel.loop(0, at.groupEnd, 1, [&](Value row) {
          kernel.loop(0, columns, kernel.width(), [&](Value column) {
            moveTo(row, column);
            Value cotangent = kernel.loadVector(
                tile, {kernel.mul(row, shape.stride), column});
            if (sink.source == Source::Negated)
              cotangent =
                  arith::NegFOp::create(kernel.builder, kernel.loc, cotangent);
            addInPlace(sink.hoisted->op, cotangent);
          });
        });
        point.setOffsets(TilePoint::Offsets::Cells);
      });
}

void GradientSums::moveTo(Index row, Index column) {
  point.enterCell(kernel.add(at.firstQuery, row),
                  kernel.add(at.firstKey, column));
  point.setPoint(0, 0);
}

/// Whether no two lanes are the same, an i1.
Value GradientSums::areDistinct(Value lanes) {
  int64_t width = kernel.width();
  Value differ;
  for (int64_t step = 1; step <= width / 2; ++step) {
    SmallVector<int64_t> turned;
    for (int64_t lane = 0; lane < width; ++lane)
      turned.push_back((lane + step) % width);
    Value other = arith::CmpIOp::create(kernel.builder, kernel.loc,
                                        arith::CmpIPredicate::ne, lanes,
                                        kernel.shuffle(lanes, lanes, turned));
    differ = kernel.both(differ, other);
  }
  return vector::ReductionOp::create(kernel.builder, kernel.loc,
                                     vector::CombiningKind::AND, differ);
}

/// Adds a column of vectors of the tile to its entries of the table.
void GradientSums::addToTable(const Sink &sink, Value tile, Value to,
                              Index column) {
  auto load = [&](Index row) {
    return kernel.loadVector(tile, {kernel.mul(row, shape.stride)});
  };
  auto getEntry = [&](Value code) {
    return kernel.fromI32(arith::SubIOp::create(kernel.builder, kernel.loc,
                                                code, point.getRowCode()));
  };
  // Entries of neighbouring rows mostly overlap, and a load has to wait for a
  // store that overlaps with it: rows a vector apart follow each other.
  auto addRun = [&](Value first) {
    kernel.loop(
        0, kernel.min(at.groupEnd, kernel.width()), 1, [&](Value start) {
          kernel.loop(start, at.groupEnd, kernel.width(), [&](Value row) {
            moveTo(row, column);
            addSum(load(row), sink, kernel.advance(to, {getEntry(first)}));
          });
        });
  };
  auto forRows = [&](function_ref<void(Value addends)> body) {
    kernel.loop(0, at.groupEnd, 1, [&](Value row) {
      moveTo(row, column);
      body(load(row));
    });
  };
  auto addApart = [&](Value codes) {
    forRows([&](Value addends) {
      Value entries =
          arith::SubIOp::create(kernel.builder, kernel.loc, codes,
                                kernel.broadcast(point.getRowCode()));
      Value old = kernel.gather(kernel.f32, to, entries);
      kernel.scatter(combine(sink, old, addends), to, entries);
    });
  };
  auto addLanes = [&](Value codes) {
    forRows([&](Value addends) {
      kernel.loop(0, kernel.width(), 1, [&](Value lane) {
        auto extract = [&](Value vector) -> Value {
          return LLVM::ExtractElementOp::create(kernel.builder, kernel.loc,
                                                vector, lane);
        };
        Value entry = kernel.advance(to, {getEntry(extract(codes))});
        addSum(extract(addends), sink, entry);
      });
    });
  };
  moveTo(0, column);
  Value codes = point.getLaneCodes();
  point.tables.forCodes(codes, [&](Value run) {
    if (run)
      return addRun(run);
    kernel.when(
        areDistinct(codes), [&] { addApart(codes); }, [&] { addLanes(codes); });
  });
}

/// The pullback of a value at the vector of scores where the point stands.
/// Reads of parameters have sums of their own.
void GradientSums::addInPlace(pos::HoistOp hoist, Value cotangent) {
  kernel.check(pullbackHoist(kernel.builder, hoist, cotangent, point));
  SmallVector<HoistCotangent> earlier(point.getCotangents());
  for (const HoistCotangent &gradient : earlier) {
    Sink *sink = findSink(gradient.hoist);
    assert(sink && "what wants a gradient has sums");
    if (sink->hoisted->form == HoistForm::OffsetTable) {
      point.setPoint(0, 0);
      addInPlace(gradient.hoist, gradient.value);
      continue;
    }
    assert(sink->hoisted->form == HoistForm::HeadScalar &&
           "a value over offsets uses none of rows");
    Value to =
        arguments.getAddress(sink->tensor, {at.getSum(), at.batch, at.head});
    kernel.addToF64(to, kernel.sumLanes(kernel.broadcast(gradient.value)));
  }
}

/// A vector of sums over the lanes of a row of a tile.
Value GradientSums::sumRow(Value first) {
  return kernel.loop(
      0, columns, kernel.width(), kernel.splatF32(0.0),
      [&](Value column, ValueRange carried) -> Values {
        return {kernel.addF(carried[0], kernel.loadVector(first, {column}))};
      })[0];
}

/// Vector over queries.
void GradientSums::addRows(const Sink &sink, Value tile, Value to) {
  kernel.loop(0, at.groupEnd, 1, [&](Value row) {
    Value sum = sumRow(kernel.advance(tile, {kernel.mul(row, shape.stride)}));
    addSum(kernel.sumLanes(sum), sink,
           kernel.advance(to, {at.firstQuery, row}));
  });
}

/// Vector over keys.
void GradientSums::addColumns(const Sink &sink, Value tile, Value to) {
  kernel.loop(0, columns, kernel.width(), [&](Value column) {
    Value first = kernel.advance(tile, {column});
    Value sum = kernel.loop(
        0, at.groupEnd, 1, kernel.splatF32(0.0),
        [&](Value row, ValueRange carried) -> Values {
          return {kernel.addF(
              carried[0],
              kernel.loadVector(first, {kernel.mul(row, shape.stride)}))};
        })[0];
    addSum(sum, sink, kernel.advance(to, {at.firstKey, column}));
  });
}

/// Scalar of a head, summed over blocks in f64: there are L^2 terms.
void GradientSums::addAll(const Sink &sink, Value tile, Value to) {
  Value rows = kernel.loop(0, at.groupEnd, 1, kernel.splatF32(0.0),
                           [&](Value row, ValueRange carried) -> Values {
                             Value sum = sumRow(kernel.advance(
                                 tile, {kernel.mul(row, shape.stride)}));
                             return {kernel.addF(carried[0], sum)};
                           })[0];
  Value addend = kernel.widen(kernel.sumLanes(rows));
  if (sink.source == Source::Negated)
    kernel.store(arith::SubFOp::create(kernel.builder, kernel.loc,
                                       kernel.load(kernel.f64, to), addend),
                 to);
  else
    kernel.addToF64(to, addend);
}
