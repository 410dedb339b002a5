/* Bytes of heap blocks that live, and the most there have been: a library to
   preload, for tests of how much memory a call holds at its worst. The resident
   set would answer nearly the same, but for what the allocator keeps and when
   the kernel gives pages out, which changes from run to run.

   The blocks themselves come from the C library's own entry points, which
   exist beside the names replaced here. */

#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stddef.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

static atomic_size_t live, most;

static void *add(void *block) {
  size_t size = malloc_usable_size(block); /* 0 for a null block */
  size_t now = atomic_fetch_add(&live, size) + size;
  size_t seen = atomic_load(&most);
  while (now > seen && !atomic_compare_exchange_weak(&most, &seen, now))
    ;
  return block;
}

static void subtract(void *block) {
  atomic_fetch_sub(&live, malloc_usable_size(block));
}

void *malloc(size_t size) { return add(__libc_malloc(size)); }

void *calloc(size_t count, size_t size) {
  return add(__libc_calloc(count, size));
}

void *realloc(void *block, size_t size) {
  size_t before = malloc_usable_size(block);
  void *result = __libc_realloc(block, size);
  if (!result && size) /* the old block is as it was */
    return result;
  atomic_fetch_sub(&live, before);
  return add(result);
}

void *memalign(size_t alignment, size_t size) {
  return add(__libc_memalign(alignment, size));
}

void *aligned_alloc(size_t alignment, size_t size) {
  return memalign(alignment, size);
}

int posix_memalign(void **block, size_t alignment, size_t size) {
  if (alignment % sizeof(void *) || (alignment & (alignment - 1)) || !alignment)
    return EINVAL;
  void *result = memalign(alignment, size);
  if (!result && size)
    return ENOMEM;
  *block = result;
  return 0;
}

void free(void *block) {
  subtract(block);
  __libc_free(block);
}

/* The high-water mark starts at what lives now, which is returned. */
size_t live_bytes_start(void) {
  size_t now = atomic_load(&live);
  atomic_store(&most, now);
  return now;
}

size_t live_bytes_most(void) { return atomic_load(&most); }
