/* SHA-256, the name of everything in the store. A library of its own (store_digest_dep),
 * so that programs that only look things up do not link libcrypto. */
#ifndef GB_STORE_DIGEST_H
#define GB_STORE_DIGEST_H

#include "base/err.h"
#include "base/mem.h"

#define GB_SHA256_LEN 32
#define GB_SHA256_HEX (2 * GB_SHA256_LEN) /* digits, without the NUL */

struct gb_sha256;

int gb_sha256_new(struct gb_sha256 **ret, struct gb_err *err);
struct gb_sha256 *gb_sha256_free(struct gb_sha256 *s); /* NULL is fine; returns NULL */
GB_DEFINE_CLEANUP(gb_sha256)

/* A failure is remembered and reported by gb_sha256_hex. */
void gb_sha256_add(struct gb_sha256 *s, const void *data, size_t len);
/* A number, as eight bytes little endian. */
void gb_sha256_add_u64(struct gb_sha256 *s, uint64_t n);
/* Digest of all that was added, as hex digits with a NUL; the struct starts over. */
int gb_sha256_hex(struct gb_sha256 *s, char ret[GB_SHA256_HEX + 1], struct gb_err *err);

/* Of a file's bytes from its start to its end, read by pread (no offset is moved). */
int gb_sha256_file(int fd, char ret[GB_SHA256_HEX + 1], struct gb_err *err);
/* Of a sparse file's layout and content, holes unread: "gb-sparse-1\n", its size, then for
 * each run of 4 KiB blocks that are not all zero its offset, length and bytes (numbers as
 * gb_sha256_add_u64). Zero blocks count as holes, so that the answer depends on what the
 * file says and not on how it was written. */
int gb_sha256_sparse(int fd, char ret[GB_SHA256_HEX + 1], struct gb_err *err);

#endif
