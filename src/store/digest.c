#include "store/digest.h"
#include "base/str.h"

#include <errno.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ_SIZE    ((size_t)1 << 20)
#define SPARSE_BLOCK ((size_t)4096)
#define SPARSE_MAGIC "gb-sparse-1\n"

struct gb_sha256 {
	EVP_MD_CTX *ctx; /* owned */
	bool failed;
};

int gb_sha256_new(struct gb_sha256 **ret, struct gb_err *err)
{
	gb_auto(gb_sha256) *s = calloc(1, sizeof(*s));

	if (!s)
		return gb_nomem(err);
	s->ctx = EVP_MD_CTX_new();
	if (!s->ctx || EVP_DigestInit_ex(s->ctx, EVP_sha256(), NULL) != 1)
		return gb_nomem(err);
	*ret = gb_take_ptr(s);
	return 0;
}

struct gb_sha256 *gb_sha256_free(struct gb_sha256 *s)
{
	if (s)
		EVP_MD_CTX_free(s->ctx);
	free(s);
	return NULL;
}

void gb_sha256_add(struct gb_sha256 *s, const void *data, size_t len)
{
	if (EVP_DigestUpdate(s->ctx, data, len) != 1)
		s->failed = true;
}

void gb_sha256_add_u64(struct gb_sha256 *s, uint64_t n)
{
	uint8_t bytes[8];

	for (int i = 0; i < 8; i++)
		bytes[i] = (uint8_t)(n >> (8 * i));
	gb_sha256_add(s, bytes, sizeof(bytes));
}

int gb_sha256_hex(struct gb_sha256 *s, char ret[GB_SHA256_HEX + 1], struct gb_err *err)
{
	uint8_t out[EVP_MAX_MD_SIZE];
	unsigned int len = 0;

	if (EVP_DigestFinal_ex(s->ctx, out, &len) != 1 || len != GB_SHA256_LEN)
		s->failed = true;
	if (EVP_DigestInit_ex(s->ctx, EVP_sha256(), NULL) != 1 || s->failed)
		return gb_fail(err, GB_E_IO, "cannot compute a SHA-256 digest");
	gb_hex(out, GB_SHA256_LEN, ret);
	return 0;
}

/* pread that retries; *got is less than len at the end of the file only. */
static int read_at(
	int fd, void *data, size_t len, uint64_t at, size_t *got, struct gb_err *err)
{
	*got = 0;
	while (*got < len) {
		ssize_t n =
			pread(fd, (char *)data + *got, len - *got, (off_t)(at + *got));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return gb_fail_sys(err, errno, "cannot read");
		if (n == 0)
			break;
		*got += (size_t)n;
	}
	return 0;
}

int gb_sha256_file(int fd, char ret[GB_SHA256_HEX + 1], struct gb_err *err)
{
	gb_auto(gb_sha256) *s = NULL;
	gb_auto_free uint8_t *data = malloc(READ_SIZE);
	uint64_t at = 0;
	size_t got;
	int r = gb_sha256_new(&s, err);

	if (r < 0)
		return r;
	if (!data)
		return gb_nomem(err);
	do {
		r = read_at(fd, data, READ_SIZE, at, &got, err);
		if (r < 0)
			return r;
		gb_sha256_add(s, data, got);
		at += got;
	} while (got == READ_SIZE);
	return gb_sha256_hex(s, ret, err);
}

static bool all_zero(const uint8_t *p, size_t len)
{
	return len == 0 || (p[0] == 0 && memcmp(p, p + 1, len - 1) == 0);
}

static size_t run_length(const uint8_t *p, size_t len, bool zero)
{
	size_t n = 0;

	while (n < len && all_zero(p + n, GB_MIN(SPARSE_BLOCK, len - n)) == zero)
		n += GB_MIN(SPARSE_BLOCK, len - n);
	return n;
}

/* The runs in one piece of the file. A run is cut at the pieces' borders, which lie at
 * multiples of READ_SIZE whatever the holes, so the cuts are the same for the same bytes.
 */
static void add_runs(struct gb_sha256 *s, const uint8_t *data, size_t len, uint64_t at)
{
	size_t done = 0;

	while (done < len) {
		size_t n;

		done += run_length(data + done, len - done, true);
		n = run_length(data + done, len - done, false);
		if (n == 0)
			continue;
		gb_sha256_add_u64(s, at + done);
		gb_sha256_add_u64(s, n);
		gb_sha256_add(s, data + done, n);
		done += n;
	}
}

/* Where the next data is, as a multiple of READ_SIZE at or after at; size: none. */
static int next_data(
	int fd, uint64_t at, uint64_t size, uint64_t *ret, struct gb_err *err)
{
	off_t found = lseek(fd, (off_t)at, SEEK_DATA);

	if (found < 0 && errno != ENXIO && errno != EINVAL)
		return gb_fail_sys(err, errno, "cannot look for data");
	if (found < 0)
		*ret = errno == ENXIO ? size : at;
	else
		*ret = GB_MAX(at, (uint64_t)found / READ_SIZE * READ_SIZE);
	return 0;
}

int gb_sha256_sparse(int fd, char ret[GB_SHA256_HEX + 1], struct gb_err *err)
{
	gb_auto(gb_sha256) *s = NULL;
	gb_auto_free uint8_t *data = malloc(READ_SIZE);
	struct stat st;
	uint64_t at = 0;
	size_t got;
	int r = gb_sha256_new(&s, err);

	if (r < 0)
		return r;
	if (!data)
		return gb_nomem(err);
	if (fstat(fd, &st) < 0)
		return gb_fail_sys(err, errno, "cannot look at a file");
	gb_sha256_add(s, SPARSE_MAGIC, sizeof(SPARSE_MAGIC) - 1);
	gb_sha256_add_u64(s, (uint64_t)st.st_size);
	for (;;) {
		r = next_data(fd, at, (uint64_t)st.st_size, &at, err);
		if (r == 0 && at >= (uint64_t)st.st_size)
			break;
		if (r == 0)
			r = read_at(fd, data, READ_SIZE, at, &got, err);
		if (r < 0)
			return r;
		if (got == 0)
			break;
		add_runs(s, data, got, at);
		at += READ_SIZE;
	}
	return gb_sha256_hex(s, ret, err);
}
