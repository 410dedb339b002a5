// Owns the precompiled headers of Sextant.cmake, which want a source file.
