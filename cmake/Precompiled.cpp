//===- Precompiled.cpp - A source file for precompiled headers ------------===//
//
// Owns the precompiled headers of Sextant.cmake, which want a source file.
//
//===----------------------------------------------------------------------===//
