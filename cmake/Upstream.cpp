// Owns the precompiled header of Sextant.cmake, which wants a source file.
