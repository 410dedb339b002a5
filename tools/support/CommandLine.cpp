//===- CommandLine.cpp - Options of tools ---------------------------------===//
//
// Options are found by name; an unknown one is an error that names the nearest.
//
//===----------------------------------------------------------------------===//

#include "tools/support/CommandLine.h"
#include "codegen/Artifact/Artifact.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"
#include <cerrno>
#include <cstdlib>
#include <utility>

using namespace sextant;
using namespace sextant::tools;

CommandLine::CommandLine(std::string tool, std::string positional,
                         std::string overview)
    : tool(std::move(tool)), positional(std::move(positional)),
      overview(std::move(overview)) {}

void CommandLine::addFlag(const char *name, bool &value, const char *help) {
  options.push_back({name, "", help, &value, nullptr, nullptr, nullptr});
}

void CommandLine::addFlagAlone(const char *name, bool &value,
                               const char *help) {
  addFlag(name, value, help);
  options.back().isAlone = true;
}

void CommandLine::addValue(const char *name, std::string &value,
                           const char *valueName, const std::string &help) {
  options.push_back({name, valueName, help, nullptr, &value, nullptr, nullptr});
}

void CommandLine::addNumber(const char *name, int64_t &value,
                            const char *help) {
  options.push_back({name, "N", help, nullptr, nullptr, &value, nullptr});
}

void CommandLine::addList(const char *name, std::vector<std::string> &values,
                          const char *valueName, const char *help) {
  options.push_back(
      {name, valueName, help, nullptr, nullptr, nullptr, &values});
}

void CommandLine::fail(const std::string &message) const {
  llvm::errs() << tool << ": " << message << "; see " << tool << " --help\n";
  std::exit(2);
}

void CommandLine::printHelp() const {
  llvm::outs() << overview << "\nusage: " << tool << " [options] " << positional
               << "\n\n";
  for (const Option &option : options) {
    std::string left = "  --" + option.name;
    if (!option.valueName.empty())
      left += " " + option.valueName;
    left.resize(std::max<size_t>(left.size() + 2, 30), ' ');
    llvm::outs() << left << option.help << '\n';
  }
  llvm::outs() << "  --version                   print the versions of Sextant "
                  "and LLVM\n";
}

const CommandLine::Option &CommandLine::find(const std::string &name) const {
  const Option *nearest = nullptr;
  unsigned distance = 4;
  for (const Option &option : options) {
    if (option.name == name)
      return option;
    unsigned other = llvm::StringRef(option.name).edit_distance(name);
    if (other < distance) {
      distance = other;
      nearest = &option;
    }
  }
  fail("unknown option --" + name +
       (nearest ? " (did you mean --" + nearest->name + "?)" : ""));
}

void CommandLine::set(const Option &option, const std::string &value) const {
  if (option.text) {
    *option.text = value;
  } else if (option.list) {
    option.list->push_back(value);
  } else {
    char *end = nullptr;
    errno = 0;
    *option.number = std::strtoll(value.c_str(), &end, 10);
    if (value.empty() || *end || errno)
      fail("--" + option.name + " needs a number, not '" + value + "'");
  }
}

std::string CommandLine::parse(int argc, char **argv) const {
  std::vector<std::string> positionals;
  const Option *alone = nullptr;
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    if (argument.size() < 2 || argument[0] != '-') {
      positionals.push_back(argument);
      continue;
    }
    std::string name = argument.substr(argument[1] == '-' ? 2 : 1);
    if (name == "help" || name == "h") {
      printHelp();
      std::exit(0);
    }
    if (name == "version") {
      llvm::outs() << codegen::getCompilerVersion() << '\n';
      std::exit(0);
    }
    size_t equals = name.find('=');
    bool hasValue = equals != std::string::npos;
    std::string value = hasValue ? name.substr(equals + 1) : "";
    const Option &option = find(name.substr(0, equals));
    if (option.flag) {
      if (hasValue)
        fail("--" + option.name + " takes no value");
      *option.flag = true;
      if (option.isAlone)
        alone = &option;
      continue;
    }
    if (!hasValue) {
      if (i + 1 == argc)
        fail("--" + option.name + " needs a value");
      value = argv[++i];
    }
    set(option, value);
  }
  if (alone && !positionals.empty())
    fail("--" + alone->name + " takes no " + positional);
  if (alone)
    return "";
  if (positionals.size() != 1)
    fail(positionals.empty() ? "give " + positional
                             : "one " + positional + " is enough");
  return positionals[0];
}
