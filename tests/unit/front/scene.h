/* A command line, its configuration and a place with nothing in it, for what turns options into
 * machines and requests. */
#ifndef GB_TESTS_FRONT_SCENE_H
#define GB_TESTS_FRONT_SCENE_H

#include "base/path.h"
#include "front/cli/cli.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

struct scene {
	char root[64];
	struct gb_cli cli;
	struct gb_config config;
	char words[256];
	char *argv[32];
};

static inline int make_scene(void **state)
{
	struct scene *s = calloc(1, sizeof(*s));
	const char *tmp = getenv("TMPDIR");

	snprintf(s->root, sizeof(s->root), "%s/gb-front-XXXXXX",
		tmp && strlen(tmp) < 40 ? tmp : "/tmp");
	if (!mkdtemp(s->root))
		return -1;
	s->cli.dirs.config = gb_path_join(s->root, "own/config");
	s->cli.dirs.data = gb_path_join(s->root, "own/data");
	s->cli.dirs.cache = gb_path_join(s->root, "own/cache");
	s->cli.dirs.runtime = gb_path_join(s->root, "own/run");
	s->cli.cwd = gb_path_join(s->root, "project");
	*state = s;
	return gb_mkdir_p(s->cli.cwd, 0700, NULL) | gb_mkdir_p(s->cli.dirs.data, 0700, NULL);
}

static inline int remove_scene(void **state)
{
	struct scene *s = *state;
	int r = gb_rm_tree(AT_FDCWD, s->root, NULL);

	gb_config_done(&s->config);
	gb_cli_args_done(&s->cli.args);
	gb_dirs_done(&s->cli.dirs);
	free(s->cli.cwd);
	free(s);
	return r;
}

/* Parse "run --cpus 4 x" and put its options over the defaults. */
static inline void say(struct scene *s, const char *words)
{
	int n = 0;
	char *p = s->words;
	struct gb_err err = { 0 };

	snprintf(s->words, sizeof(s->words), "glovebox %s", words);
	while (*p) {
		s->argv[n++] = p;
		p += strcspn(p, " ");
		if (*p)
			*p++ = 0;
	}
	gb_cli_args_done(&s->cli.args);
	gb_config_done(&s->config);
	assert_int_equal(gb_cli_parse(n, s->argv, &s->cli.args, &err), 0);
	assert_int_equal(gb_cli_load_config(&s->cli, &s->config, &err), 0);
}

#define SCENE_TEST(f) cmocka_unit_test_setup_teardown(f, make_scene, remove_scene)

#endif
