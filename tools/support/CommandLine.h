//===- CommandLine.h - Options of tools -------------------------*- C++ -*-===//
//
// Tools parse their command lines with this small parser and not with LLVM's,
// whose options are global, clash with those of the linker in this process, and
// are reset by it.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_TOOLS_SUPPORT_COMMANDLINE_H
#define SEXTANT_TOOLS_SUPPORT_COMMANDLINE_H

#include <cstdint>
#include <string>
#include <vector>

namespace sextant::tools {

/// The options of a tool, which it declares before it parses its arguments.
class CommandLine {
public:
  /// `positional` is what the one positional argument is called in the help;
  /// `overview` is the help's first lines.
  CommandLine(std::string tool, std::string positional, std::string overview);

  /// Options write to variables, which hold the defaults. `-name=value`,
  /// `--name=value` and `--name value` are the same.
  void addFlag(const char *name, bool &value, const char *help);
  /// A flag with which the positional argument is left out.
  void addFlagAlone(const char *name, bool &value, const char *help);
  void addValue(const char *name, std::string &value, const char *valueName,
                const std::string &help);
  void addNumber(const char *name, int64_t &value, const char *help);
  /// May be given several times.
  void addList(const char *name, std::vector<std::string> &values,
               const char *valueName, const char *help);

  /// Gives the positional argument, "" where a flag stands alone. Ends the
  /// process after --help and --version (0) and on a wrong command line (2).
  std::string parse(int argc, char **argv) const;

  /// Prints the message and how to get help; ends the process with 2.
  [[noreturn]] void fail(const std::string &message) const;

private:
  /// One option; the pointer that is not null says where its value goes.
  struct Option {
    std::string name, valueName, help;
    bool *flag = nullptr;
    std::string *text = nullptr;
    int64_t *number = nullptr;
    std::vector<std::string> *list = nullptr;
    bool isAlone = false;
  };
  const Option &find(const std::string &name) const;
  void set(const Option &option, const std::string &value) const;
  void printHelp() const;

  std::string tool, positional, overview;
  std::vector<Option> options;
};

} // namespace sextant::tools

#endif // SEXTANT_TOOLS_SUPPORT_COMMANDLINE_H
