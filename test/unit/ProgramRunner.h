//===- ProgramRunner.h - Runs a module in the test's process ----*- C++ -*-===//
//
// A runner compiles the kernels of a module and interprets its functions of
// exec: what a unit test of code generation needs, without artifact and
// runtime.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_TEST_UNIT_PROGRAMRUNNER_H
#define SEXTANT_TEST_UNIT_PROGRAMRUNNER_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace sextant::test {

/// A strided tensor on the host.
struct Tensor {
  std::string type; ///< "f32", "f64", "i32", "i8"
  std::vector<int64_t> sizes, strides;
  std::shared_ptr<std::vector<char>> memory;

  Tensor() = default;
  /// Contiguous and zero.
  Tensor(std::string type, std::vector<int64_t> sizes);

  static Tensor random(std::string type, std::vector<int64_t> sizes,
                       unsigned seed, double low = -1, double high = 1);
  static Tensor of(std::string type, std::vector<int64_t> sizes,
                   std::vector<double> values);

  int64_t count() const;
  /// Elements in order of the indices, whatever the strides.
  double get(int64_t number) const;
  void set(int64_t number, double value);
  std::vector<double> values() const;
  /// The same values in f32, f64 or i32.
  Tensor as(std::string type) const;

private:
  char *address(int64_t number) const;
};

/// A module whose kernels are compiled, ready to run.
class Program {
public:
  /// Parses `text`, runs `pipeline`, lowers attention for `target` unless
  /// `lower` does it, and compiles the kernels. Null after a diagnostic, which
  /// `error` then holds.
  static std::unique_ptr<Program>
  compile(const std::string &text, const std::string &target,
          std::string *error = nullptr, const std::string &pipeline = "",
          std::function<mlir::LogicalResult(mlir::ModuleOp)> lower = nullptr);
  ~Program();

  /// `chunks`: into how many ranges a launch's items are split.
  std::vector<Tensor> run(const std::string &function,
                          std::vector<Tensor> arguments, int64_t chunks = 1);

  /// The address of a function of `@kernels`.
  void *symbol(const std::string &name);

private:
  Program();
  struct Impl;
  std::unique_ptr<Impl> impl;
};

/// The largest difference, relative to the largest magnitude of `want` (at
/// least 1e-30). NaN anywhere but in both gives infinity.
double relativeError(const Tensor &got, const Tensor &want);

/// A seed that differs from run to run, printed once.
unsigned freshSeed();

} // namespace sextant::test

#endif // SEXTANT_TEST_UNIT_PROGRAMRUNNER_H
