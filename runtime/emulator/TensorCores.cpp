//===- TensorCores.cpp - Matrices that a warp holds in pieces -------------===//

#include "runtime/emulator/TensorCores.h"
#include <cmath>
#include <cstring>

using namespace sextant::runtime::emulator;

static constexpr int lanes = 32;
static constexpr int rowsOfA = 16, columnsOfA = 16, columnsOfB = 8;
/// Words of A and B, then elements of C.
static constexpr int wordsOfA = 4, wordsOfB = 2, elementsOfC = 4;

/// The nearest f32 that is not larger in magnitude.
static float cutOff(double value) {
  auto result = static_cast<float>(value);
  if (std::isfinite(result) && std::fabs(result) > std::fabs(value))
    result = std::nextafter(result, 0.0F);
  return result;
}

void sextant::runtime::emulator::multiplyFragments(
    const LaneSources &sources, const LaneTargets &targets,
    double (*decode)(uint16_t bits)) {
  double a[rowsOfA][columnsOfA], b[columnsOfB][columnsOfA];
  for (int lane = 0; lane != lanes; ++lane) {
    const auto *words = static_cast<const uint32_t *>(sources[lane]);
    int group = lane / 4, pair = 2 * (lane % 4);
    for (int half = 0; half != 2; ++half) {
      for (int i = 0; i != wordsOfA; ++i)
        a[group + 8 * (i % 2)][pair + 8 * (i / 2) + half] =
            decode(static_cast<uint16_t>(words[i] >> (16 * half)));
      for (int i = 0; i != wordsOfB; ++i)
        b[group][pair + 8 * i + half] =
            decode(static_cast<uint16_t>(words[wordsOfA + i] >> (16 * half)));
    }
  }
  for (int lane = 0; lane != lanes; ++lane) {
    float sums[elementsOfC];
    std::memcpy(sums,
                static_cast<const uint32_t *>(sources[lane]) + wordsOfA +
                    wordsOfB,
                sizeof(sums));
    for (int i = 0; i != elementsOfC; ++i) {
      const double *row = a[lane / 4 + 8 * (i / 2)];
      const double *column = b[2 * (lane % 4) + i % 2];
      double sum = sums[i];
      for (int k = 0; k != columnsOfA; ++k)
        sum += row[k] * column[k];
      sums[i] = cutOff(sum);
    }
    std::memcpy(targets[lane], sums, sizeof(sums));
  }
}

void sextant::runtime::emulator::loadFragments(const LaneSources &sources,
                                               const LaneTargets &targets,
                                               bool isTransposed) {
  for (int lane = 0; lane != lanes; ++lane) {
    int group = lane / 4, pair = 2 * (lane % 4);
    uint32_t words[lanes / matrixRows] = {};
    for (int matrix = 0; matrix != lanes / matrixRows; ++matrix)
      for (int half = 0; half != 2; ++half) {
        int row = isTransposed ? pair + half : group;
        int column = isTransposed ? group : pair + half;
        uint16_t element;
        std::memcpy(
            &element,
            static_cast<const uint16_t *>(sources[matrixRows * matrix + row]) +
                column,
            sizeof(element));
        words[matrix] |= static_cast<uint32_t>(element) << (16 * half);
      }
    std::memcpy(targets[lane], words, sizeof(words));
  }
}

LaneWords sextant::runtime::emulator::turnMatrix(const LaneWords &words) {
  LaneWords turned;
  for (int lane = 0; lane != lanes; ++lane) {
    int row = lane / 4, column = 2 * (lane % 4);
    uint32_t word = 0;
    for (int half = 0; half != 2; ++half) {
      // What becomes element (row, column + half).
      auto from = static_cast<uint32_t>(words[4 * (column + half) + row / 2]);
      word |= (from >> (16 * (row % 2)) & 0xffff) << (16 * half);
    }
    turned[lane] = static_cast<int32_t>(word);
  }
  return turned;
}
