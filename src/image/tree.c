#include "image/tree.h"
#include "base/str.h"

#include <string.h>

struct gb_tree_source *gb_tree_source_free(struct gb_tree_source *s)
{
	if (s)
		s->ops->free(s);
	return NULL;
}

static bool xattr_name_known(const char *name)
{
	return gb_starts_with(name, "user.") || gb_starts_with(name, "trusted.") ||
	       gb_starts_with(name, "security.") ||
	       gb_streq(name, "system.posix_acl_access") ||
	       gb_streq(name, "system.posix_acl_default");
}

int gb_tree_xattrs_add(struct gb_tree_xattrs *x, const char *name, const void *value,
	size_t len, struct gb_err *err)
{
	struct gb_tree_xattr a;

	if (!xattr_name_known(name))
		return 0;
	if (x->n >= GB_TREE_XATTRS_MAX || len > GB_TREE_XATTR_BYTES_MAX ||
		strlen(name) > GB_TREE_NAME_MAX ||
		x->bytes + strlen(name) + len > GB_TREE_XATTR_BYTES_MAX)
		return gb_fail(err, GB_E_LIMIT, "extended attributes over %d or %d bytes",
			GB_TREE_XATTRS_MAX, GB_TREE_XATTR_BYTES_MAX);
	if (!x->v)
		x->v = calloc(GB_TREE_XATTRS_MAX, sizeof(*x->v));
	a.name = strdup(name);
	a.value = malloc(len + 1);
	a.len = len;
	if (!x->v || !a.name || !a.value) {
		free(a.name);
		free(a.value);
		return gb_nomem(err);
	}
	if (len)
		memcpy(a.value, value, len);
	x->v[x->n++] = a;
	x->bytes += strlen(name) + len;
	return 0;
}

void gb_tree_xattrs_done(struct gb_tree_xattrs *x)
{
	for (size_t i = 0; i < x->n; i++) {
		free(x->v[i].name);
		free(x->v[i].value);
	}
	free(x->v);
	memset(x, 0, sizeof(*x));
}
