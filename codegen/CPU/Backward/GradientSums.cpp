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

GradientSums::GradientSums(KernelBuilder &kernel, ArgumentBlock &arguments,
                           const BackwardTask &task, ScratchLayout &layout,
                           Value scratch)
    : kernel(kernel), arguments(arguments), task(task), shape(task.shape),
      layout(layout), scratch(scratch) {
  for (auto [number, hoisted] : llvm::enumerate(task.plan.hoisted))
    if (task.tableGradients[number])
      sinks.push_back(
          {&hoisted, *task.tableGradients[number], Source::Unused, Value()});
}

//===----------------------------------------------------------------------===//
// Tiles of cotangents
//===----------------------------------------------------------------------===//

Value GradientSums::reserveTile() {
  // Before the first row and after the last one there is a vector of zeros.
  int64_t elements = (shape.queries + 1) * shape.stride + kernel.width();
  return kernel.advance(scratch, {layout.reserve(elements), kernel.width()});
}

void GradientSums::record(Value scoreGradient,
                          ArrayRef<HoistCotangent> cotangents, Index cell,
                          Index place) {
  for (const HoistCotangent &gradient : cotangents) {
    const Hoisted *hoisted = task.plan.find(gradient.hoist);
    Sink *sink = llvm::find_if(
        sinks, [&](const Sink &sink) { return sink.hoisted == hoisted; });
    if (sink == sinks.end())
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
        kernel.builder.setInsertionPointAfterValue(scratch);
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

void GradientSums::emitBlock(BackwardSite &site, Value scoreGradients,
                             const Rectangle &block) {
  bool edgesAreClear = false;
  for (const Sink &sink : sinks) {
    if (sink.source == Source::Unused)
      continue;
    bool isOwn = sink.source == Source::Own;
    Value tile = isOwn ? sink.tile : scoreGradients;
    // A key belongs to one chunk: its sums have no other.
    bool isKeys = sink.hoisted->form == HoistForm::KeyVector;
    auto [batch, head] = site.getPlace();
    Value to = arguments.getAddress(
        sink.tensor, {isKeys ? Index(0) : block.chunk, batch, head});
    switch (sink.hoisted->form) {
    case HoistForm::OffsetTable:
      if (task.sites.offsetRange) {
        addAtOffsets(site, sink, tile, to, block);
        break;
      }
      if (isOwn || !edgesAreClear)
        clearEdges(tile, block);
      edgesAreClear |= !isOwn;
      addDiagonals(sink, tile, to, block);
      break;
    case HoistForm::QueryVector:
      addRows(sink, tile, to, block);
      break;
    case HoistForm::KeyVector:
      addColumns(sink, tile, to, block);
      break;
    case HoistForm::HeadScalar:
      addAll(sink, tile, to, block);
      break;
    case HoistForm::RowLaneTable:
      llvm_unreachable("a score payload uses no table of a row map");
    }
  }
}

/// Adds a vector of sums, or subtracts it where the tile is that of -dS.
void GradientSums::addSum(Value addend, const Sink &sink, Value at) {
  Value old = kernel.loadVector(at);
  kernel.storeVector(sink.source == Source::Negated ? kernel.subF(old, addend)
                                                    : kernel.addF(old, addend),
                     at);
}

/// A vector of zeros on both sides of every row.
void GradientSums::clearEdges(Value tile, const Rectangle &block) {
  Value zero = kernel.splatF32(0.0);
  kernel.loop(0, kernel.add(block.rows, 1), 1, [&](Value row) {
    Value first = kernel.advance(tile, {kernel.mul(row, shape.stride)});
    kernel.storeVector(zero, first, {-kernel.width()});
    kernel.storeVector(zero, first, {block.columns});
  });
}

/// Offset table: entry (column - row). One vector of sums takes a skewed,
/// unaligned load per row, in four chains because additions take several
/// cycles.
void GradientSums::addDiagonals(const Sink &sink, Value tile, Value to,
                                const Rectangle &block) {
  int64_t width = kernel.width();
  Index lastQuery = kernel.sub(arguments.getSize(task.sites.query, 2), 1);
  Index shift =
      kernel.sub(kernel.add(block.firstKey, lastQuery), block.firstQuery);
  Value entries = kernel.advance(to, {shift, task.tablePadding()});
  Value zero = kernel.splatF32(0.0);
  kernel.loop(-shape.queries, block.columns, width, [&](Value diagonal) {
    Index low = kernel.max(0, kernel.sub(1 - width, diagonal));
    Index high = kernel.max(
        low, kernel.min(block.rows, kernel.sub(block.columns, diagonal)));
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
void GradientSums::addAtOffsets(BackwardSite &site, const Sink &sink,
                                Value tile, Value to, const Rectangle &block) {
  kernel.when(
      OffsetRange(kernel, arguments, *task.sites.offsetRange).emitHasTables(),
      [&] {
        kernel.loop(0, block.columns, kernel.width(), [&](Value column) {
          addToTable(site, sink, kernel.advance(tile, {column}), to, block,
                     column);
        });
      },
      [&] {
        site.setOffsets(KernelSite::Offsets::InPlace);
        kernel.loop(0, block.rows, 1, [&](Value row) {
          kernel.loop(0, block.columns, kernel.width(), [&](Value column) {
            moveTo(site, block, row, column);
            Value cotangent = kernel.loadVector(
                tile, {kernel.mul(row, shape.stride), column});
            if (sink.source == Source::Negated)
              cotangent =
                  arith::NegFOp::create(kernel.builder, kernel.loc, cotangent);
            addInPlace(site, sink.hoisted->op, cotangent);
          });
        });
        site.setOffsets(KernelSite::Offsets::Cells);
      });
}

void GradientSums::moveTo(BackwardSite &site, const Rectangle &block, Index row,
                          Index column) {
  site.enterCell(kernel.add(block.firstQuery, row),
                 kernel.add(block.firstKey, column));
  site.setPoint(0, 0);
}

/// Stores lanes of f32 at base[indices], which are distinct.
static void scatter(KernelBuilder &kernel, Value lanes, Value base,
                    Value indices) {
  OpBuilder &builder = kernel.builder;
  Value pointers = LLVM::GEPOp::create(
      builder, kernel.loc, VectorType::get(kernel.width(), kernel.pointer),
      kernel.f32, base, ArrayRef<LLVM::GEPArg>{LLVM::GEPArg(indices)},
      LLVM::GEPNoWrapFlags::none);
  LLVM::masked_scatter::create(
      builder, kernel.loc, lanes, pointers,
      kernel.constant(DenseElementsAttr::get(kernel.vi1, true)),
      builder.getI32IntegerAttr(4));
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
void GradientSums::addToTable(BackwardSite &site, const Sink &sink, Value tile,
                              Value to, const Rectangle &block, Index column) {
  auto load = [&](Index row) {
    return kernel.loadVector(tile, {kernel.mul(row, shape.stride)});
  };
  auto getEntry = [&](Value code) {
    return kernel.fromI32(arith::SubIOp::create(kernel.builder, kernel.loc,
                                                code, site.getRowCode()));
  };
  // Entries of neighbouring rows mostly overlap, and a load has to wait for a
  // store that overlaps with it: rows a vector apart follow each other.
  auto addRun = [&](Value first) {
    kernel.loop(0, kernel.min(block.rows, kernel.width()), 1, [&](Value start) {
      kernel.loop(start, block.rows, kernel.width(), [&](Value row) {
        moveTo(site, block, row, column);
        addSum(load(row), sink, kernel.advance(to, {getEntry(first)}));
      });
    });
  };
  auto combine = [&](Value old, Value addend) {
    return sink.source == Source::Negated ? kernel.subF(old, addend)
                                          : kernel.addF(old, addend);
  };
  auto forRows = [&](function_ref<void(Value addends)> body) {
    kernel.loop(0, block.rows, 1, [&](Value row) {
      moveTo(site, block, row, column);
      body(load(row));
    });
  };
  auto addApart = [&](Value codes) {
    forRows([&](Value addends) {
      Value entries =
          arith::SubIOp::create(kernel.builder, kernel.loc, codes,
                                kernel.broadcast(site.getRowCode()));
      Value old = kernel.gather(kernel.f32, to, entries);
      scatter(kernel, combine(old, addends), to, entries);
    });
  };
  auto addLanes = [&](Value codes) {
    forRows([&](Value addends) {
      kernel.loop(0, kernel.width(), 1, [&](Value lane) {
        auto extract = [&](Value vector) -> Value {
          return LLVM::ExtractElementOp::create(kernel.builder, kernel.loc,
                                                vector, lane);
        };
        Value at = kernel.advance(to, {getEntry(extract(codes))});
        kernel.store(combine(kernel.loadF32(at), extract(addends)), at);
      });
    });
  };
  moveTo(site, block, 0, column);
  Value codes = site.getLaneCodes();
  site.tables.forCodes(site.getLaneCodes(), [&](Value run) {
    if (run)
      return addRun(run);
    kernel.when(
        areDistinct(codes), [&] { addApart(codes); }, [&] { addLanes(codes); });
  });
}

/// The pullback of a value at the vector of scores where the site stands. Reads
/// of parameters have sums of their own.
void GradientSums::addInPlace(BackwardSite &site, pos::HoistOp hoist,
                              Value cotangent) {
  kernel.check(pullbackHoist(kernel.builder, hoist, cotangent, site));
  SmallVector<HoistCotangent> earlier(site.getCotangents());
  for (const HoistCotangent &gradient : earlier) {
    const Hoisted *hoisted = task.plan.find(gradient.hoist);
    Sink *sink = llvm::find_if(
        sinks, [&](const Sink &sink) { return sink.hoisted == hoisted; });
    assert(sink != sinks.end() && "what wants a gradient has sums");
    if (hoisted->form == HoistForm::OffsetTable) {
      site.setPoint(0, 0);
      addInPlace(site, gradient.hoist, gradient.value);
      continue;
    }
    assert(hoisted->form == HoistForm::HeadScalar &&
           "a value over offsets uses none of rows");
    auto [batch, head] = site.getPlace();
    Value to =
        arguments.getAddress(sink->tensor, {site.getChunk(), batch, head});
    kernel.addToF64(to, kernel.sumLanes(kernel.broadcast(gradient.value)));
  }
}

/// Vector over queries.
void GradientSums::addRows(const Sink &sink, Value tile, Value to,
                           const Rectangle &block) {
  kernel.loop(0, block.rows, 1, [&](Value row) {
    Value first = kernel.advance(tile, {kernel.mul(row, shape.stride)});
    Value sum = kernel.loop(
        0, block.columns, kernel.width(), kernel.splatF32(0.0),
        [&](Value column, ValueRange carried) -> Values {
          return {kernel.addF(carried[0], kernel.loadVector(first, {column}))};
        })[0];
    Value addend = kernel.sumLanes(sum);
    Value at = kernel.advance(to, {block.firstQuery, row});
    Value old = kernel.loadF32(at);
    kernel.store(sink.source == Source::Negated ? kernel.subF(old, addend)
                                                : kernel.addF(old, addend),
                 at);
  });
}

/// Vector over keys.
void GradientSums::addColumns(const Sink &sink, Value tile, Value to,
                              const Rectangle &block) {
  kernel.loop(0, block.columns, kernel.width(), [&](Value column) {
    Value first = kernel.advance(tile, {column});
    Value sum = kernel.loop(
        0, block.rows, 1, kernel.splatF32(0.0),
        [&](Value row, ValueRange carried) -> Values {
          return {kernel.addF(
              carried[0],
              kernel.loadVector(first, {kernel.mul(row, shape.stride)}))};
        })[0];
    addSum(sum, sink, kernel.advance(to, {block.firstKey, column}));
  });
}

/// Scalar of a head, summed over blocks in f64: there are L^2 terms.
void GradientSums::addAll(const Sink &sink, Value tile, Value to,
                          const Rectangle &block) {
  Value rows = kernel.loop(
      0, block.rows, 1, kernel.splatF32(0.0),
      [&](Value row, ValueRange carried) -> Values {
        Value first = kernel.advance(tile, {kernel.mul(row, shape.stride)});
        Value sum =
            kernel.loop(0, block.columns, kernel.width(), kernel.splatF32(0.0),
                        [&](Value column, ValueRange inner) -> Values {
                          return {kernel.addF(
                              inner[0], kernel.loadVector(first, {column}))};
                        })[0];
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
