/* A qcow2 (version 3) overlay, as a machine's private disk. What we write, in clusters:
 *
 *   0     header, header extension "backing format", name of the backing file
 *   1     refcount table: one entry, which covers 2 GiB of file; QEMU adds more
 *   2     refcount block: clusters 0 to 6 are used once
 *   3-6   L1 table for the largest disk we make; all zero, so a hole in the file
 *
 * Because the L1 table has its final size from the start, an overlay costs three blocks
 * whatever its virtual size, and growing it is one number in the header. */
#include "image/disk/clone.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "store/publish.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#define QCOW_MAGIC	  UINT32_C(0x514649fb)
#define QCOW_EXT_FORMAT	  UINT32_C(0xe2792aca)
#define QCOW_CLUSTER_BITS 16
#define QCOW_CLUSTER	  (UINT64_C(1) << QCOW_CLUSTER_BITS)
#define QCOW_L1_ENTRIES	  UINT32_C(32768) /* of 512 MiB each */
#define QCOW_L1_CLUSTERS  (QCOW_L1_ENTRIES * 8 / QCOW_CLUSTER)
#define QCOW_CLUSTERS	  (3 + QCOW_L1_CLUSTERS)
#define QCOW_NAME_MAX	  1023 /* of the format */

#define DISK_SIZE_MAX (UINT64_C(16) << 40) /* of a machine */

static_assert(QCOW_L1_ENTRIES * (QCOW_CLUSTER / 8) * QCOW_CLUSTER == DISK_SIZE_MAX,
	"the L1 table reaches the largest disk");

/* All big endian. */
struct qcow_header {
	uint32_t magic;
	uint32_t version;
	uint64_t backing_file_offset;
	uint32_t backing_file_size;
	uint32_t cluster_bits;
	uint64_t size;
	uint32_t crypt_method;
	uint32_t l1_size;
	uint64_t l1_table_offset;
	uint64_t refcount_table_offset;
	uint32_t refcount_table_clusters;
	uint32_t nb_snapshots;
	uint64_t snapshots_offset;
	uint64_t incompatible_features;
	uint64_t compatible_features;
	uint64_t autoclear_features;
	uint32_t refcount_order;
	uint32_t header_length;
};
static_assert(sizeof(struct qcow_header) == 104, "no padding");

struct qcow_start {
	struct qcow_header header;
	uint32_t format_type;
	uint32_t format_length;
	char format[8]; /* padded to a multiple of 8 */
	uint32_t end_type;
	uint32_t end_length;
};
static_assert(sizeof(struct qcow_start) == 128, "no padding");

static int put(int fd, const void *data, size_t len, uint64_t at, struct gb_err *err)
{
	ssize_t n = pwrite(fd, data, len, (off_t)at);

	if (n < 0)
		return gb_fail_sys(err, errno, "cannot write");
	if ((size_t)n != len)
		return gb_fail(err, GB_E_NOSPACE, "no space left");
	return 0;
}

static struct qcow_start make_start(const char *base, uint64_t size)
{
	return (struct qcow_start){
		.header =
			{
				.magic = htobe32(QCOW_MAGIC),
				.version = htobe32(3),
				.backing_file_offset = htobe64(sizeof(struct qcow_start)),
				.backing_file_size = htobe32((uint32_t)strlen(base)),
				.cluster_bits = htobe32(QCOW_CLUSTER_BITS),
				.size = htobe64(size),
				.l1_size = htobe32(QCOW_L1_ENTRIES),
				.l1_table_offset = htobe64(3 * QCOW_CLUSTER),
				.refcount_table_offset = htobe64(QCOW_CLUSTER),
				.refcount_table_clusters = htobe32(1),
				.refcount_order = htobe32(4),
				.header_length = htobe32(sizeof(struct qcow_header)),
			},
		.format_type = htobe32(QCOW_EXT_FORMAT),
		.format_length = htobe32(3),
		.format = "raw",
	};
}

static int write_overlay(int fd, const char *base, uint64_t size, struct gb_err *err)
{
	struct qcow_start s = make_start(base, size);
	uint64_t first_block = htobe64(2 * QCOW_CLUSTER);
	uint16_t used[QCOW_CLUSTERS];
	int r;

	for (size_t i = 0; i < QCOW_CLUSTERS; i++)
		used[i] = htobe16(1);
	if (ftruncate(fd, QCOW_CLUSTERS * QCOW_CLUSTER) < 0)
		return gb_fail_sys(err, errno, "cannot set its size");
	r = put(fd, &s, sizeof(s), 0, err);
	if (r == 0)
		r = put(fd, base, strlen(base), sizeof(s), err);
	if (r == 0)
		r = put(fd, &first_block, sizeof(first_block), QCOW_CLUSTER, err);
	if (r == 0)
		r = put(fd, used, sizeof(used), 2 * QCOW_CLUSTER, err);
	return r;
}

static int check_size(uint64_t size, struct gb_err *err)
{
	if (size == 0 || size % 512)
		return gb_fail(err, GB_E_INVALID,
			"a disk's size must be a multiple of 512 bytes");
	if (size > DISK_SIZE_MAX)
		return gb_fail(err, GB_E_LIMIT, "a disk cannot be larger than 16T");
	return 0;
}

static int check_base(const char *base, uint64_t size, struct gb_err *err)
{
	struct stat st;

	if (*base != '/' || strlen(base) > QCOW_NAME_MAX)
		return gb_fail(err, GB_E_INVALID,
			"image path '%s' must be absolute and at most %d bytes long",
			base, QCOW_NAME_MAX);
	if (stat(base, &st) < 0)
		return gb_fail_sys(err, errno, "cannot find image '%s'", base);
	if (!S_ISREG(st.st_mode))
		return gb_fail(
			err, GB_E_INVALID, "image '%s' is not a regular file", base);
	if ((uint64_t)st.st_size > size)
		return gb_fail(err, GB_E_INVALID,
			"a disk of %llu MiB is smaller than its image: it needs %llu MiB "
			"at least",
			(unsigned long long)(size >> 20),
			(unsigned long long)((st.st_size + (1 << 20) - 1) >> 20));
	return check_size(size, err);
}

int gb_disk_clone(const char *base, const char *dest, uint64_t size, struct gb_err *err)
{
	gb_auto_done(gb_newfile) f = GB_NEWFILE_INIT;
	int r = check_base(base, size, err);

	if (r == 0)
		r = gb_newfile_begin(dest, &f, err);
	if (r == 0)
		r = write_overlay(f.fd, base, size, err);
	if (r == 0)
		r = gb_newfile_commit(&f, 0600, err);
	if (r < 0)
		return gb_wrap(err, r, "cannot make disk '%s'", dest);
	return 0;
}

/* As gb_disk_clone leaves it: QEMU makes a file longer with its first write, and never clears
 * an entry of the L1 table that it has set. */
static bool is_pristine(int fd, const char *base, uint64_t size)
{
	struct qcow_start want = make_start(base, size);
	struct qcow_start is;
	char name[QCOW_NAME_MAX + 1];
	uint64_t table[QCOW_CLUSTER / sizeof(uint64_t)];
	size_t len = strlen(base);
	struct stat st;

	if (len > QCOW_NAME_MAX || fstat(fd, &st) < 0 ||
		(uint64_t)st.st_size != QCOW_CLUSTERS * QCOW_CLUSTER ||
		pread(fd, &is, sizeof(is), 0) != sizeof(is) ||
		memcmp(&is, &want, sizeof(is)) != 0 ||
		pread(fd, name, len, sizeof(is)) != (ssize_t)len || memcmp(name, base, len) != 0)
		return false;
	for (uint64_t i = 3; i < QCOW_CLUSTERS; i++) {
		if (pread(fd, table, sizeof(table), (off_t)(i * QCOW_CLUSTER)) !=
			(ssize_t)sizeof(table))
			return false;
		for (size_t k = 0; k < GB_ARRAY_SIZE(table); k++)
			if (table[k])
				return false;
	}
	return true;
}

bool gb_disk_is_pristine(const char *base, const char *dest, uint64_t size)
{
	gb_auto_fd fd = open(dest, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	return fd >= 0 && is_pristine(fd, base, size);
}

static int copy_bytes(int from, int to, off_t at, off_t end, struct gb_err *err)
{
	while (at < end) {
		off_t in = at, out = at;
		ssize_t n = copy_file_range(from, &in, to, &out, (size_t)(end - at), 0);

		if (n <= 0)
			return gb_fail_sys(err, n < 0 ? errno : EIO, "cannot copy");
		at += n;
	}
	return 0;
}

/* Shared blocks where the file system can, else what is not a hole. */
static int copy_file(int from, int to, struct gb_err *err)
{
	struct stat st;
	off_t at = 0;

	if (ioctl(to, FICLONE, from) == 0)
		return 0;
	if (fstat(from, &st) < 0 || ftruncate(to, st.st_size) < 0)
		return gb_fail_sys(err, errno, "cannot set its size");
	while ((at = lseek(from, at, SEEK_DATA)) >= 0) {
		off_t end = lseek(from, at, SEEK_HOLE);
		int r = end < 0 ? gb_fail_sys(err, errno, "cannot read the template's disk")
				: copy_bytes(from, to, at, end, err);

		if (r < 0)
			return r;
		at = end;
	}
	return errno == ENXIO ? 0 : gb_fail_sys(err, errno, "cannot read the template's disk");
}

/* The name of the image is the last thing in the header's cluster. */
static int set_base(int fd, const char *base, uint64_t size, struct gb_err *err)
{
	struct qcow_header h;
	uint64_t at;
	int r;

	if (pread(fd, &h, sizeof(h), 0) != sizeof(h) || be32toh(h.magic) != QCOW_MAGIC ||
		be32toh(h.version) != 3 || be32toh(h.cluster_bits) != QCOW_CLUSTER_BITS ||
		be64toh(h.size) != size || h.nb_snapshots || h.incompatible_features)
		return gb_fail(err, GB_E_STATE, "the template's disk is not as it should be");
	at = be64toh(h.backing_file_offset);
	if (at < sizeof(h) || at > QCOW_CLUSTER - QCOW_NAME_MAX || strlen(base) > QCOW_NAME_MAX)
		return gb_fail(err, GB_E_STATE, "the template's disk names no image");
	h.backing_file_size = htobe32((uint32_t)strlen(base));
	r = put(fd, &h, sizeof(h), 0, err);
	return r == 0 ? put(fd, base, strlen(base), at, err) : r;
}

static int sync_folder_of(const char *path, struct gb_err *err)
{
	gb_auto_free char *folder = strndup(path, (size_t)(gb_path_base(path) - path));

	if (!folder)
		return gb_nomem(err);
	return gb_sync_folder(*folder ? folder : ".", err);
}

static int replace(int from, const char *base, const char *dest, const char *tmp, uint64_t size,
	bool durable, struct gb_err *err)
{
	gb_auto_fd fd = open(tmp, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	int r = fd < 0 ? gb_fail_sys(err, errno, "cannot create '%s'", tmp)
		       : copy_file(from, fd, err);

	if (r == 0)
		r = set_base(fd, base, size, err);
	if (r == 0 && durable && fsync(fd) < 0)
		r = gb_fail_sys(err, errno, "cannot sync");
	if (r == 0 && rename(tmp, dest) < 0)
		r = gb_fail_sys(err, errno, "cannot rename '%s'", tmp);
	if (r < 0) {
		unlink(tmp);
		return r;
	}
	return durable ? sync_folder_of(dest, err) : 0;
}

int gb_disk_replace(int from_fd, const char *base, const char *dest, uint64_t size, bool durable,
	struct gb_err *err)
{
	gb_auto_free char *tmp = NULL;
	int r;

	if (!gb_disk_is_pristine(base, dest, size))
		return gb_fail(err, GB_E_STATE, "disk '%s' has been used", dest);
	if (asprintf(&tmp, "%s" GB_DISK_REPLACING, dest) < 0) {
		tmp = NULL;
		return gb_nomem(err);
	}
	r = replace(from_fd, base, dest, tmp, size, durable, err);
	return r < 0 ? gb_wrap(err, r, "cannot make disk '%s'", dest) : 0;
}

static int read_header(
	int fd, const char *path, struct qcow_header *ret, struct gb_err *err)
{
	ssize_t n = pread(fd, ret, sizeof(*ret), 0);

	if (n < 0)
		return gb_fail_sys(err, errno, "cannot read disk '%s'", path);
	if (n != sizeof(*ret) || be32toh(ret->magic) != QCOW_MAGIC ||
		be32toh(ret->version) != 3)
		return gb_fail(err, GB_E_PARSE, "'%s' is not a qcow2 disk", path);
	return 0;
}

int gb_disk_size(const char *path, uint64_t *ret, struct gb_err *err)
{
	gb_auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
	struct qcow_header h;
	int r;

	if (fd < 0)
		return gb_fail_sys(err, errno, "cannot open disk '%s'", path);
	r = read_header(fd, path, &h, err);
	if (r == 0)
		*ret = be64toh(h.size);
	return r;
}

/* How much the L1 table of the file reaches, whoever wrote it. */
static uint64_t reach(const struct qcow_header *h)
{
	uint32_t bits = be32toh(h->cluster_bits);

	if (bits < 9 || bits > 21)
		return 0;
	return (uint64_t)be32toh(h->l1_size) << (2 * bits - 3);
}

int gb_disk_grow(const char *path, uint64_t size, struct gb_err *err)
{
	gb_auto_fd fd = -1;
	struct qcow_header h;
	int r = gb_disk_lock(path, &fd, err);

	if (r == 0)
		r = read_header(fd, path, &h, err);
	if (r == 0)
		r = check_size(size, err);
	if (r < 0)
		return r;
	if (size < be64toh(h.size))
		return gb_fail(err, GB_E_INVALID,
			"a disk only grows: it has %llu MiB already",
			(unsigned long long)(be64toh(h.size) >> 20));
	if (size > reach(&h))
		return gb_fail(err, GB_E_UNSUPPORTED,
			"disk '%s' was not made by glovebox and cannot grow so far",
			path);
	h.size = htobe64(size);
	r = put(fd, &h, sizeof(h), 0, err);
	if (r == 0 && fsync(fd) < 0)
		r = gb_fail_sys(err, errno, "cannot sync");
	return r < 0 ? gb_wrap(err, r, "cannot grow disk '%s'", path) : 0;
}

/* /proc/locks: "1: FLOCK  ADVISORY  WRITE 4711 fe:00:131 0 EOF"; 0 when it cannot be
 * told. */
static int flock_holder(int fd)
{
	FILE *f = fopen("/proc/locks", "re");
	char line[256];
	struct stat st;
	int found = 0;

	if (f && fstat(fd, &st) == 0)
		while (!found && fgets(line, sizeof(line), f)) {
			unsigned int major_nr, minor_nr;
			unsigned long long ino;
			int pid;

			if (sscanf(line, "%*d: FLOCK %*s WRITE %d %x:%x:%llu", &pid,
				    &major_nr, &minor_nr, &ino) == 4 &&
				ino == st.st_ino && major_nr == major(st.st_dev) &&
				minor_nr == minor(st.st_dev))
				found = pid;
		}
	if (f)
		fclose(f);
	return found;
}

/* flock(), because QEMU places its own record locks on the same file. */
int gb_disk_lock(const char *path, int *ret_fd, struct gb_err *err)
{
	gb_auto_fd fd = open(path, O_RDWR | O_CLOEXEC);
	int pid;

	if (fd < 0)
		return gb_fail_sys(err, errno, "cannot open disk '%s'", path);
	if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
		*ret_fd = gb_take_fd(&fd);
		return 0;
	}
	if (errno != EWOULDBLOCK)
		return gb_fail_sys(err, errno, "cannot lock disk '%s'", path);
	pid = flock_holder(fd);
	if (pid > 0)
		return gb_fail(
			err, GB_E_BUSY, "disk '%s' is in use by process %d", path, pid);
	return gb_fail(err, GB_E_BUSY, "disk '%s' is in use by another process", path);
}
