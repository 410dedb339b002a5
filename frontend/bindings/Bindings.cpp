//===- Bindings.cpp - The Python module sextant._compiler -----------------===//
//
// This module offers the compiler to Python as a few calls on text, bytes and
// plain values; no class of MLIR comes through. The interpreter's lock is
// released while the compiler works. A failure is the exception `Failure` with
// the list of diagnostics.
//
//===----------------------------------------------------------------------===//

#include "frontend/bindings/CompileText.h"
#include "frontend/bindings/Inspect.h"
#include "frontend/bindings/ModelFunctions.h"
#include "frontend/bindings/Session.h"
#include "frontend/bindings/Surroundings.h"
#include <cstdlib>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

namespace py = pybind11;
using namespace sextant::bindings;

namespace {
/// Leaves the compiler with its diagnostics.
struct CompilerFailure {
  std::vector<Diagnostic> diagnostics;
};
} // namespace

//===----------------------------------------------------------------------===//
// Plain values as Python's
//===----------------------------------------------------------------------===//

static py::dict toPython(const Diagnostic &diagnostic) {
  py::list notes;
  for (const Diagnostic &note : diagnostic.notes)
    notes.append(toPython(note));
  py::dict result;
  result["severity"] = diagnostic.severity;
  result["message"] = diagnostic.message;
  result["file"] = diagnostic.file;
  result["line"] = diagnostic.line;
  result["column"] = diagnostic.column;
  result["notes"] = notes;
  return result;
}

static py::dict toPython(const ParamFacts &param) {
  py::dict result;
  result["name"] = param.name;
  result["element"] = param.element;
  result["dims"] = py::tuple(py::cast(param.dims));
  result["init"] = param.init;
  result["trained"] = param.trained;
  result["floor"] = param.floor;
  result["ceiling"] = param.ceiling;
  result["scope"] = param.scope;
  result["filled_by"] = param.filledBy;
  result["of_model"] = param.ofModel;
  result["starts_with_call"] = param.startsWithCall;
  return result;
}

static py::list toPython(const std::vector<ParamFacts> &params) {
  py::list result;
  for (const ParamFacts &param : params)
    result.append(toPython(param));
  return result;
}

static py::dict toPython(const OptionFacts &option) {
  py::dict result;
  result["name"] = option.name;
  result["type"] = option.type;
  result["default"] = option.value;
  result["choices"] = option.choices;
  result["range"] = option.range;
  return result;
}

static py::object toPython(const std::optional<ExtendedFacts> &facts) {
  if (!facts)
    return py::none();
  py::dict result;
  result["encoding"] = facts->encoding;
  result["options"] = facts->options;
  result["handed_on"] = facts->handedOn;
  return result;
}

static py::dict toPython(const EncodingFacts &facts) {
  py::list options;
  for (const OptionFacts &option : facts.options)
    options.append(toPython(option));
  py::dict result;
  result["name"] = facts.name;
  result["formula"] = facts.formula;
  result["paper"] = facts.paper;
  result["file"] = facts.file;
  result["text"] = facts.text;
  result["places"] = facts.places;
  result["functions"] = facts.functions;
  result["states"] = facts.states;
  result["inputs"] = facts.inputs;
  result["uses"] = facts.uses;
  result["extends"] = toPython(facts.extended);
  result["options"] = options;
  result["params"] = toPython(facts.params);
  return result;
}

static py::dict toPython(const SignatureFacts &facts) {
  py::dict result;
  result["params"] = toPython(facts.params);
  result["model_params"] = toPython(facts.modelParams);
  result["filled"] = facts.filled;
  py::list inputs;
  py::dict ranges;
  for (const InputFacts &input : facts.inputs) {
    inputs.append(py::make_tuple(input.name, input.dims));
    if (!input.range.empty())
      ranges[py::str(input.name)] = py::tuple(py::cast(input.range));
  }
  result["inputs"] = inputs;
  result["input_ranges"] = ranges;
  result["operands"] = facts.operands;
  result["turns_rows"] = facts.turnsRows;
  result["all_heads"] = facts.allHeads;
  result["requires_past"] = facts.requiresPast;
  result["count_heads"] = facts.countHeads;
  result["computes_with_call"] = facts.computesWithCall;
  return result;
}

static py::list toPython(const std::vector<TensorFacts> &tensors) {
  py::list result;
  for (const TensorFacts &tensor : tensors)
    result.append(
        py::make_tuple(tensor.role, tensor.name, tensor.dims, tensor.element));
  return result;
}

static py::list toPython(const std::vector<FunctionFacts> &functions) {
  py::list result;
  for (const FunctionFacts &function : functions) {
    py::dict entry;
    entry["instance"] = function.instance;
    entry["name"] = function.name;
    entry["symbol"] = function.symbol;
    entry["declaration"] = function.declaration;
    entry["draws"] = function.draws;
    entry["arguments"] = toPython(function.arguments);
    entry["results"] = toPython(function.results);
    result.append(entry);
  }
  return result;
}

static py::list toPython(const std::vector<InitialFacts> &values) {
  py::list result;
  for (const InitialFacts &facts : values)
    result.append(py::make_tuple(facts.kind, facts.numbers, facts.shape));
  return result;
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

/// Runs `call` on a session without the interpreter's lock; an empty result
/// is a failure.
template <typename Call> static auto run(Call call) {
  decltype(call(std::declval<Session &>())) result;
  std::vector<Diagnostic> diagnostics;
  {
    py::gil_scoped_release release;
    Session session;
    result = call(session);
    if (!result)
      diagnostics = session.getDiagnostics();
  }
  if (!result)
    throw CompilerFailure{std::move(diagnostics)};
  return std::move(*result);
}

using Uses = std::vector<std::string>;

/// Gives Python the diagnostics of a failure as the argument of `Failure`.
static void bindFailure(py::module_ &m) {
  // Lives as long as the interpreter.
  static py::handle failure =
      py::exception<CompilerFailure>(m, "Failure").release();
  py::register_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer)
        std::rethrow_exception(pointer);
    } catch (const CompilerFailure &error) {
      py::list diagnostics;
      for (const Diagnostic &diagnostic : error.diagnostics)
        diagnostics.append(toPython(diagnostic));
      PyErr_SetObject(failure.ptr(), diagnostics.ptr());
    }
  });
}

static void bindCompilation(py::module_ &m) {
  m.def(
      "compile",
      [](const std::string &text, const std::string &target,
         const std::string &searchPath, const std::string &stage,
         const std::string &file) -> py::object {
        std::string result = run([&](Session &session) {
          return compileText(session, {text, file, target, searchPath, stage});
        });
        if (stage == "artifact")
          return py::bytes(result);
        return py::str(result);
      },
      py::arg("text"), py::arg("target"), py::arg("search_path") = "",
      py::arg("emit") = "artifact", py::arg("file") = "<text>",
      "Compiles a module: bytes of an artifact, or the text of a stage (pos, "
      "exec, kernel, llvm, asm).");
  m.def("version", &getVersion, "Of Sextant and LLVM, as artifacts name them.");
  m.def("list_targets", &listTargets, "Targets that this machine can run.");
  m.def(
      "least_long_rows",
      [] {
        return run([](Session &session) { return countLongRows(session); });
      },
      "Queries of a head from which on \"cpu\" means another target for f32; "
      "more than there can be where it never does.");
  m.def(
      "describe_target",
      [](const std::string &name) {
        TargetFacts facts = run(
            [&](Session &session) { return describeTarget(session, name); });
        return py::make_tuple(facts.device, facts.elementTypes);
      },
      py::arg("name"),
      "Where the tensors of a target are, and names of the types that it "
      "takes.");
  m.def(
      "register_target",
      [](const std::string &name, const std::string &like, int64_t width,
         int64_t registers) {
        run([&](Session &session) {
          return registerTarget(session, name, like, width, registers);
        });
      },
      py::arg("name"), py::arg("like"), py::arg("width"), py::arg("registers"),
      "Adds a target for experiments: as another, with vectors of so many "
      "lanes "
      "of f32 and so many of them, and no instructions of its own.");
  m.def(
      "machine",
      [](int64_t threads) {
        return run([&](Session &session) {
          return describeMachine(session, threads);
        });
      },
      py::arg("threads"),
      "Peaks of this machine, measured now, its caches and what the target cpu "
      "means on it, as JSON.");
  m.def(
      "flops",
      [](const std::string &unit, int64_t threads, int64_t calls) {
        return run([&](Session &session) {
          return measureFlops(session, unit, threads, calls);
        });
      },
      py::arg("unit"), py::arg("threads"), py::arg("calls"),
      "FLOP/s of a unit of machine(), measured now for so many calls of half a "
      "millisecond.");
}

/// What asks nothing of the compiler and takes none of its locks.
static void bindSurroundings(py::module_ &m) {
  m.def(
      "read_environment",
      [](const std::vector<std::string> &names) {
        py::tuple values(names.size());
        for (size_t i = 0; i < names.size(); ++i)
          if (const char *value = std::getenv(names[i].c_str()))
            values[i] = py::reinterpret_steal<py::object>(
                PyUnicode_DecodeFSDefault(value));
          else
            values[i] = py::none();
        return values;
      },
      py::arg("names"),
      "Variables of the environment as they are now, None for each that is not "
      "set.");
  m.def(
      "find_definitions",
      [](const std::vector<std::string> &folders,
         const std::vector<std::string> &names) {
        std::vector<FileVersion> found = findDefinitions(folders, names);
        py::tuple files(found.size());
        for (size_t i = 0; i < found.size(); ++i)
          files[i] = py::make_tuple(
              py::reinterpret_steal<py::object>(
                  PyUnicode_DecodeFSDefault(found[i].path.c_str())),
              found[i].nanoseconds, found[i].bytes, found[i].number);
        return files;
      },
      py::arg("folders"), py::arg("names"),
      "The file of each encoding in the first folder that has it, as (path, "
      "time of change in nanoseconds, bytes, number); what none has is left "
      "out.");
}

static void bindDefinitions(py::module_ &m) {
  m.def(
      "list_encodings",
      [](const std::string &searchPath) {
        return run([&](Session &session) {
          return std::optional(listEncodings(session, {"", searchPath}));
        });
      },
      py::arg("search_path"), "Names of all encodings within reach, sorted.");
  m.def(
      "describe",
      [](const std::string &definitions, const std::string &name,
         const std::string &searchPath) {
        return toPython(run([&](Session &session) {
          return describe(session, {definitions, searchPath}, name);
        }));
      },
      py::arg("definitions"), py::arg("name"), py::arg("search_path"),
      "Options, parameters and places of an encoding.");
  m.def(
      "signature",
      [](const std::string &definitions, const Uses &uses,
         const std::string &searchPath) {
        return toPython(run([&](Session &session) {
          return getSignature(session, {definitions, searchPath}, uses);
        }));
      },
      py::arg("definitions"), py::arg("uses"), py::arg("search_path"),
      "Parameters of a list of uses, in the order of operands.");
  m.def(
      "count_axes",
      [](const std::string &definitions, const Uses &uses,
         const std::string &searchPath) {
        return run([&](Session &session) {
          return countAxes(session, {definitions, searchPath}, uses);
        });
      },
      py::arg("definitions"), py::arg("uses"), py::arg("search_path"),
      "How many axes of positions a list of uses reads.");
}

static void bindParameters(py::module_ &m) {
  m.def(
      "shapes",
      [](const std::string &definitions, const Uses &uses,
         const std::string &searchPath, const Extents &extents) {
        return run([&](Session &session) {
          return getShapes(session, {definitions, searchPath}, uses, extents);
        });
      },
      py::arg("definitions"), py::arg("uses"), py::arg("search_path"),
      py::arg("extents"), "Shape of every parameter of a list of uses.");
  m.def(
      "initial_values",
      [](const std::string &definitions, const Uses &uses,
         const std::string &searchPath, const std::vector<std::string> &names,
         const Extents &extents) {
        return toPython(run([&](Session &session) {
          return getInitialValues(session, {definitions, searchPath}, uses,
                                  names, extents);
        }));
      },
      py::arg("definitions"), py::arg("uses"), py::arg("search_path"),
      py::arg("names"), py::arg("extents"),
      "How each of some parameters starts: kind, numbers, shape.");
}

static void bindFunctions(py::module_ &m) {
  m.def(
      "functions",
      [](const std::string &definitions, const Uses &uses,
         const std::string &searchPath, const Extents &extents,
         const Shapes &tensors) {
        return toPython(run([&](Session &session) {
          return getFunctions(session, {definitions, searchPath}, uses, extents,
                              tensors);
        }));
      },
      py::arg("definitions"), py::arg("uses"), py::arg("search_path"),
      py::arg("extents"), py::arg("tensors"),
      "Functions by which a list of uses takes part in a model.");
}

PYBIND11_MODULE(_compiler, m) {
  m.doc() = "Sextant's compiler";
  bindFailure(m);
  bindCompilation(m);
  bindSurroundings(m);
  bindDefinitions(m);
  bindParameters(m);
  bindFunctions(m);
}
