/* What the vector units can do at most: independent chains of fused
   multiply-adds in registers, and of bf16 dot products where there are any. */
#include <immintrin.h>
#include <stdint.h>

#if defined(__AVX512F__)
#define LANES 16
typedef __m512 vector;
#define SET1 _mm512_set1_ps
#define FMA _mm512_fmadd_ps
#define CHAINS 16
#else
#define LANES 8
typedef __m256 vector;
#define SET1 _mm256_set1_ps
#define FMA _mm256_fmadd_ps
#define CHAINS 12
#endif

/* Floating-point operations of `rounds` rounds, which it runs. */
int64_t run_f32(int64_t rounds) {
  vector sums[CHAINS];
  vector x = SET1(1.0001f), y = SET1(0.9999f);
  for (int i = 0; i < CHAINS; ++i)
    sums[i] = SET1((float)i);
  for (int64_t round = 0; round < rounds; ++round) {
#pragma clang loop unroll(full)
    for (int i = 0; i < CHAINS; ++i) {
      sums[i] = FMA(x, y, sums[i]);
      __asm__ volatile("" : "+v"(sums[i]));
    }
  }
  return rounds * CHAINS * LANES * 2;
}

/* Likewise for bf16 dot products; 0 where the processor has none. */
int64_t run_bf16(int64_t rounds) {
#if defined(__AVX512BF16__)
  __m512 sums[CHAINS];
  __m512bh x = (__m512bh)_mm512_set1_epi32(0x3f803f80);
  for (int i = 0; i < CHAINS; ++i)
    sums[i] = _mm512_set1_ps((float)i);
  for (int64_t round = 0; round < rounds; ++round) {
#pragma clang loop unroll(full)
    for (int i = 0; i < CHAINS; ++i) {
      sums[i] = _mm512_dpbf16_ps(sums[i], x, x);
      __asm__ volatile("" : "+v"(sums[i]));
    }
  }
  return rounds * CHAINS * 64;
#else
  (void)rounds;
  return 0;
#endif
}
