# Functions that every folder of Sextant builds with.

set(SEXTANT_WARNINGS -Wall -Wextra -Werror -Wno-unused-parameter)

# sextant_add_library(name sources... [DEPENDS targets...] [LINK libraries...])
# A static library of MLIR-facing code: RTTI on, exceptions off, as in LLVM's
# Debian packages. The global property SEXTANT_LIBRARIES lists them all, for
# tools and tests that want every dialect and pass.
function(sextant_add_library name)
  cmake_parse_arguments(ARG "" "" "DEPENDS;LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_compile_options(${name} PRIVATE ${SEXTANT_WARNINGS} -fno-exceptions)
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
  target_compile_options(${name} PRIVATE ${SEXTANT_WARNINGS} -fno-exceptions)
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
