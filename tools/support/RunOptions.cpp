//===- RunOptions.cpp - What is run, and on what --------------------------===//
//
// This file lists the options with their help texts.
//
//===----------------------------------------------------------------------===//

#include "tools/support/RunOptions.h"
#include "codegen/Driver/Targets.h"

void sextant::tools::RunOptions::addTo(CommandLine &commandLine) {
  commandLine.addValue("function", function, "NAME",
                       "the function, where there are several");
  commandLine.addList("dim", dims, "NAME=SIZE",
                      "size of a dynamic dimension: by its name, or as "
                      "argument.number");
  commandLine.addList("input", files, "ARG=FILE.npy",
                      "an argument's value; others are made up");
  commandLine.addNumber("seed", seed, "of values that are made up (0)");
  commandLine.addNumber("threads", threads, "0 is one per core (0)");
  commandLine.addValue("target", compile.target, "NAMES",
                       "what a model is compiled for, one of " +
                           codegen::listTargets() +
                           " (cpu), or several with commas between them");
  commandLine.addValue("search-path", compile.searchPath, "FOLDERS",
                       "of encodings, separated by colons");
}
