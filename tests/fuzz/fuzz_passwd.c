/* /etc/passwd and /etc/group of a guest. Input: the user that is asked for, NUL, passwd, NUL,
 * group. Whatever is found must be sound. */
#include "guest/user.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
	if (!ok)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 3);
	const char *passwd, *group;
	struct gb_user u = { 0 };
	struct gb_err err = { 0 };
	int r;

	if (!text)
		return 0;
	memcpy(text, data, size);
	memset(text + size, 0, 3);
	passwd = text + strlen(text) + 1;
	group = passwd + strlen(passwd) + 1;
	r = gb_user_parse(passwd, group, text, &u, &err);
	if (r == 0) {
		require(u.uid <= GB_USER_ID_MAX && u.gid <= GB_USER_ID_MAX);
		require(u.name && *u.name && u.home && *u.home && u.shell && *u.shell);
		require(!strpbrk(u.name, ":\n") && !strpbrk(u.home, ":\n"));
		require(u.group_count <= GB_USER_GROUPS_MAX);
	} else {
		require(!u.name && err.code == r && err.msg[0]);
	}
	gb_user_done(&u);
	free(text);
	return 0;
}
