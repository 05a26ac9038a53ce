/* ls: reads the store only. With many machines most of its time is system calls, so a few
 * threads share them. */
#include "front/cli/look.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define THREADS_MAX	4
#define THREAD_MACHINES 64 /* fewer are not worth another thread */

/* One line of the list. */
struct entry {
	bool there; /* one that is gone by now is left out */
	struct gb_look look;
	json_t *json;
};

/* Every step-th machine, beginning with from. */
struct work {
	const struct gb_cli *cli;
	const struct gb_strv *names;
	struct entry *entries;
	size_t from, step;
	bool json;
};

static void *work(void *arg)
{
	struct work *w = arg;

	for (size_t i = w->from; i < w->names->n; i += w->step) {
		struct entry *e = &w->entries[i];

		e->there = gb_look_at(w->cli, w->names->v[i], &e->look, NULL) == 0;
		if (e->there && w->json)
			e->json = gb_look_json(w->names->v[i], &e->look);
	}
	return NULL;
}

static size_t thread_count(size_t machines)
{
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	size_t n = GB_MIN((size_t)GB_MAX(cores, 1L), (size_t)THREADS_MAX);

	return GB_MIN(n, machines / THREAD_MACHINES + 1);
}

/* A thread that cannot be had is work for ourselves. */
static void look_at_all(struct work all)
{
	size_t n = thread_count(all.names->n);
	pthread_t threads[THREADS_MAX];
	bool started[THREADS_MAX] = {false};
	struct work works[THREADS_MAX];

	for (size_t i = 0; i < n; i++) {
		works[i] = all;
		works[i].from = i;
		works[i].step = n;
		started[i] = i && pthread_create(&threads[i], NULL, work, &works[i]) == 0;
	}
	for (size_t i = 0; i < n; i++)
		if (!started[i])
			work(&works[i]);
	for (size_t i = 0; i < n; i++)
		if (started[i])
			pthread_join(threads[i], NULL);
}

static void ls_row(struct gb_table *t, const char *name, const struct gb_look *l)
{
	char cpus[16] = "-";
	char memory[32] = "-";
	char disk[32] = "-";

	if (!l->damaged) {
		snprintf(cpus, sizeof(cpus), "%u", (unsigned)l->spec.cpus);
		gb_size_text(l->spec.memory_bytes, memory, sizeof(memory));
		gb_size_text(l->spec.disk_bytes, disk, sizeof(disk));
	}
	gb_table_row(
		t, (const char *const[]){name, gb_look_state(l),
			   l->damaged ? "-" : gb_look_image(&l->spec), cpus, memory, disk,
			   l->damaged || !*l->spec.directory ? "-" : l->spec.directory,
			   NULL});
}

static int print_entries(const struct gb_strv *names, const struct entry *entries,
	bool json, struct gb_err *err)
{
	gb_auto_done(gb_table) t = {0};
	json_t *list = json ? json_array() : NULL;

	gb_table_row(&t, (const char *const[]){"NAME", "STATE", "IMAGE", "CPUS", "MEMORY",
				 "DISK", "DIRECTORY", NULL});
	for (size_t i = 0; i < names->n; i++) {
		if (!entries[i].there)
			continue;
		if (json)
			json_array_append(list, entries[i].json);
		else
			ls_row(&t, names->v[i], &entries[i].look);
	}
	return json ? gb_print_json(list, err) : gb_table_print(&t, err);
}

static int ls_all(
	const struct gb_cli *cli, const struct gb_strv *names, struct gb_err *err)
{
	bool json = gb_cli_given(&cli->args, OPT_JSON);
	gb_auto_free struct entry *entries = calloc(names->n + 1, sizeof(*entries));
	int r;

	if (!entries)
		return gb_nomem(err);
	look_at_all((struct work){
		.cli = cli, .names = names, .entries = entries, .json = json});
	r = print_entries(names, entries, json, err);
	for (size_t i = 0; i < names->n; i++) {
		if (entries[i].there)
			gb_look_done(&entries[i].look);
		json_decref(entries[i].json);
	}
	return r;
}

int gb_cmd_ls(struct gb_cli *cli, struct gb_err *err)
{
	gb_auto_done(gb_strv) names = {0};
	int r = gb_machine_names(&cli->dirs, &names, err);

	if (r < 0)
		return r;
	if (!gb_cli_given(&cli->args, OPT_QUIET))
		return ls_all(cli, &names, err);
	for (size_t i = 0; i < names.n; i++)
		puts(names.v[i]);
	return gb_flush(err);
}
