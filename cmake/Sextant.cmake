# Functions that every folder of Sextant builds with.

set(SEXTANT_WARNINGS -Wall -Wextra -Werror -Wno-unused-parameter)

# Upstream's headers, parsed once for all MLIR-facing code: they are four fifths
# of the time that a file of ours takes to compile. A file still includes what it
# uses: cmake -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON builds without it.
set(SEXTANT_UPSTREAM_HEADERS
  <mlir/Bytecode/BytecodeOpInterface.h>
  <mlir/Dialect/Arith/IR/Arith.h>
  <mlir/Dialect/Func/IR/FuncOps.h>
  <mlir/Dialect/LLVMIR/LLVMDialect.h>
  <mlir/Dialect/Math/IR/Math.h>
  <mlir/Dialect/SCF/IR/SCF.h>
  <mlir/Dialect/Tensor/IR/Tensor.h>
  <mlir/Dialect/Vector/IR/VectorOps.h>
  <mlir/IR/Builders.h>
  <mlir/IR/BuiltinOps.h>
  <mlir/IR/DialectImplementation.h>
  <mlir/IR/IRMapping.h>
  <mlir/IR/Matchers.h>
  <mlir/IR/OpImplementation.h>
  <mlir/IR/TypeUtilities.h>
  <mlir/Parser/Parser.h>
  <mlir/Pass/Pass.h>
  <mlir/Pass/PassManager.h>
  <llvm/ADT/MapVector.h>
  <llvm/ADT/SetVector.h>
  <llvm/ADT/StringExtras.h>
  <llvm/ADT/TypeSwitch.h>
  <llvm/Support/Error.h>
  <llvm/Support/FileSystem.h>
  <llvm/Support/MathExtras.h>
  <llvm/Support/SourceMgr.h>)

# sextant_precompile(name headers... [DEPENDS targets...])
# A precompiled header: upstream's and those given.
function(sextant_precompile name)
  cmake_parse_arguments(ARG "" "" "DEPENDS" ${ARGN})
  add_library(${name} OBJECT ${PROJECT_SOURCE_DIR}/cmake/Precompiled.cpp)
  target_compile_options(${name} PRIVATE ${SEXTANT_WARNINGS} -fno-exceptions)
  target_precompile_headers(${name} PRIVATE
    ${SEXTANT_UPSTREAM_HEADERS} ${ARG_UNPARSED_ARGUMENTS})
  if(ARG_DEPENDS)
    add_dependencies(${name} ${ARG_DEPENDS})
  endif()
endfunction()

# No edit of ours makes this one again.
sextant_precompile(SextantUpstream)

# Whether one of the libraries is `wanted` or links it.
function(sextant_links wanted result)
  set(${result} OFF PARENT_SCOPE)
  foreach(library ${ARGN})
    if(library STREQUAL wanted)
      set(${result} ON PARENT_SCOPE)
      return()
    endif()
    if(TARGET ${library} AND library MATCHES "^Sextant")
      get_target_property(linked ${library} INTERFACE_LINK_LIBRARIES)
      sextant_links(${wanted} found ${linked})
      if(found)
        set(${result} ON PARENT_SCOPE)
        return()
      endif()
    endif()
  endforeach()
endfunction()

# Flags of MLIR-facing code, the same for libraries and tools: RTTI on, exceptions
# off, as in LLVM's Debian packages. What links `pos` finds its header, which is most
# of what is left of a file's time, precompiled as well.
function(sextant_use_upstream name)
  target_compile_options(${name} PRIVATE ${SEXTANT_WARNINGS} -fno-exceptions)
  sextant_links(SextantPos pos ${ARGN})
  if(pos)
    target_precompile_headers(${name} REUSE_FROM SextantPosHeader)
  else()
    target_precompile_headers(${name} REUSE_FROM SextantUpstream)
  endif()
endfunction()

# sextant_add_library(name sources... [DEPENDS targets...] [LINK libraries...])
# A static library of MLIR-facing code. The global property SEXTANT_LIBRARIES lists
# them all, for tools and tests that want every dialect and pass.
function(sextant_add_library name)
  cmake_parse_arguments(ARG "" "" "DEPENDS;LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  sextant_use_upstream(${name} ${ARG_LINK})
  if(ARG_DEPENDS)
    add_dependencies(${name} ${ARG_DEPENDS})
  endif()
  target_link_libraries(${name} PUBLIC ${ARG_LINK} MLIR LLVM)
  set_property(GLOBAL APPEND PROPERTY SEXTANT_LIBRARIES ${name})
endfunction()

# sextant_add_tool(name sources... [LINK libraries...])
function(sextant_add_tool name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  # Code of an executable may know that it is one (-fPIE), which a precompiled
  # header of libraries does not.
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${name} PRIVATE -fPIC)
  sextant_use_upstream(${name} ${ARG_LINK})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} MLIR LLVM)
endfunction()

# sextant_add_docs(name td flags...)
# Writes docs/<name>.md of the build tree from a td file; part of target `docs`.
function(sextant_add_docs name td)
  set(LLVM_TARGET_DEFINITIONS ${td})
  mlir_tablegen(${name}.md ${ARGN})
  set(page ${PROJECT_BINARY_DIR}/docs/${name}.md)
  add_custom_command(OUTPUT ${page}
    COMMAND ${CMAKE_COMMAND} -E copy ${CMAKE_CURRENT_BINARY_DIR}/${name}.md ${page}
    DEPENDS ${CMAKE_CURRENT_BINARY_DIR}/${name}.md)
  add_custom_target(SextantDocs${name} DEPENDS ${page})
  add_dependencies(docs SextantDocs${name})
endfunction()
