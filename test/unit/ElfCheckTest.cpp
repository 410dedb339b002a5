//===- ElfCheckTest.cpp - Damaged shared objects --------------------------===//
//
// The system's loader crashes on what the check lets through wrongly: each
// damaged copy of an object is loaded, or refused with an error.
//
//===----------------------------------------------------------------------===//

#include "runtime/ElfCheck.h"
#include "codegen/Driver/Targets.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "runtime/SharedObject.h"
#include "gtest/gtest.h"
#include <cstring>

using namespace sextant;
using runtime::SharedObject;
using Bytes = std::vector<uint8_t>;

/// Every kind of relocation that kernels have: a function of the C library, an
/// address of data, data in another segment.
static const char text[] = R"(
  llvm.func @expf(f32) -> f32
  llvm.mlir.global external constant @numbers(dense<[2.0, 3.0]> : tensor<2xf32>) : !llvm.array<2 x f32>
  llvm.mlir.global external @first() : !llvm.ptr {
    %a = llvm.mlir.addressof @numbers : !llvm.ptr
    llvm.return %a : !llvm.ptr
  }
  llvm.func @k(%x: f32) -> f32 {
    %first = llvm.mlir.addressof @first : !llvm.ptr
    %p = llvm.load volatile %first : !llvm.ptr -> !llvm.ptr
    %n = llvm.load %p : !llvm.ptr -> f32
    %y = llvm.call @expf(%x) : (f32) -> f32
    %z = llvm.fmul %n, %y : f32
    llvm.return %z : f32
  }
)";

static const Bytes &getObject() {
  static const Bytes bytes = [] {
    mlir::DialectRegistry registry;
    codegen::registerTargetDialects(registry);
    mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
    auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    EXPECT_TRUE(module);
    auto target = codegen::findTarget("reference");
    EXPECT_TRUE(static_cast<bool>(target));
    auto code =
        target->compile(*module, target->processor, codegen::CodeForm::Object);
    EXPECT_TRUE(static_cast<bool>(code));
    const std::string &object = code->objects.front().code;
    return Bytes(object.begin(), object.end());
  }();
  return bytes;
}

namespace {
/// How many copies were loaded and how many refused.
struct Counts {
  int loaded = 0, refused = 0;

  void load(std::span<const uint8_t> code) {
    auto object = SharedObject::load(code);
    if (object) {
      ++loaded;
      (void)object->find("k");
      (void)object->find("nobody");
    } else {
      ++refused;
      EXPECT_FALSE(object.error().message().empty());
    }
  }
};
} // namespace

TEST(ElfCheck, AcceptsWhatTheCompilerLinks) {
  auto object = SharedObject::load(getObject());
  ASSERT_TRUE(static_cast<bool>(object)) << object.error().message();
  auto k = object->find("k");
  ASSERT_TRUE(static_cast<bool>(k));
  EXPECT_EQ(reinterpret_cast<float (*)(float)>(*k)(0.0f), 2.0f);
}

// Sections and their names stand at the end, unread: the first cut that matters
// takes the last byte of a segment.
TEST(ElfCheck, AnyLength) {
  const Bytes &object = getObject();
  Counts counts;
  for (size_t length = 0; length < object.size(); ++length)
    counts.load({object.data(), length});
  EXPECT_GT(counts.refused, 500);
  auto half = SharedObject::load({object.data(), object.size() / 4});
  ASSERT_FALSE(static_cast<bool>(half));
  EXPECT_NE(half.error().message().find("the artifact's kernels are damaged"),
            std::string::npos);
}

TEST(ElfCheck, AnyByte) {
  Counts counts;
  for (size_t place = 0; place < getObject().size(); ++place)
    for (uint8_t flipped : {0x01, 0x80, 0xff}) {
      Bytes copy = getObject();
      copy[place] ^= flipped;
      counts.load(copy);
    }
  EXPECT_GT(counts.refused, 1000);
  EXPECT_GT(counts.loaded, 1000);
}

TEST(ElfCheck, AnyWord) {
  Counts counts;
  for (size_t place = 0; place + 8 <= getObject().size(); place += 4)
    for (uint64_t word :
         {uint64_t(0), uint64_t(8), uint64_t(0x1000), ~uint64_t(0)}) {
      Bytes copy = getObject();
      std::memcpy(copy.data() + place, &word, sizeof(word));
      counts.load(copy);
    }
  EXPECT_GT(counts.refused, 500);
}

TEST(ElfCheck, DescriptorsAreNotKept) {
  std::vector<SharedObject> objects;
  for (int i = 0; i < 40; ++i) {
    auto object = SharedObject::load(getObject());
    ASSERT_TRUE(static_cast<bool>(object)) << object.error().message();
    objects.push_back(std::move(*object));
  }
  // Each is loaded for itself, though their descriptors had one number.
  EXPECT_NE(*objects[0].find("k"), *objects[1].find("k"));
}
