/* The program: its own process, with descriptors and a current folder of its own. */
#include "rows.h"

#include "folder.h"
#include "patch/patch_main.h"

#include <sys/wait.h>

#define PATCH_TEXT                                                                       \
	"*** Begin Patch\n*** Update File: a\n@@\n-1\n+$HOME `x`\n*** End Patch\n"
#define USAGE_TEXT                                                                       \
	"Usage: apply_patch [--allow-outside] 'PATCH'\n"                                 \
	"       echo 'PATCH' | apply_patch [--allow-outside]\n"

struct row {
	const char *name;
	const char *args[4];
	const char *in;	       /* standard input */
	const char *cwd;       /* below the workspace */
	const char *workspace; /* GLOVEBOX_WORKSPACE, $W and $O as usual; NULL: not set */
	int code;
	const char *out; /* standard output if code is 0, else standard error */
	const char *a;	 /* sub/a, after it */
};

static const struct row rows[] = {
	{ "argument", { PATCH_TEXT }, "", "sub", NULL, 0,
		"Success. Updated the following files:\nM a\n", "$HOME `x`\n" },
	{ "standard input", { NULL }, PATCH_TEXT, "sub", NULL, 0,
		"Success. Updated the following files:\nM a\n", "$HOME `x`\n" },
	{ "standard input: here-document in it", { NULL }, "<<'EOF'\n" PATCH_TEXT "EOF\n",
		"sub", NULL, 0, "Success. Updated the following files:\nM a\n",
		"$HOME `x`\n" },
	{ "option of others", { "--preserve-crlf", PATCH_TEXT }, "", "sub", NULL, 0,
		"Success. Updated the following files:\nM a\n", "$HOME `x`\n" },
	{ "nothing", { NULL }, "", "sub", NULL, 2, USAGE_TEXT, "1\n" },
	{ "two arguments", { PATCH_TEXT, "more" }, "", "sub", NULL, 2,
		"Error: apply_patch accepts exactly one PATCH argument.\n", "1\n" },
	{ "help", { "--help" }, "", "sub", NULL, 0, USAGE_TEXT, "1\n" },
	{ "no patch", { "bad" }, "", "sub", NULL, 1,
		"Invalid patch: The first line of the patch must be '*** Begin Patch'\n",
		"1\n" },
	{ "bad hunk", { "*** Begin Patch\n*** Update File: foo.txt\n*** End Patch" }, "",
		"sub", NULL, 1,
		"Invalid patch hunk on line 2: Update file hunk for path 'foo.txt' is "
		"empty\n",
		"1\n" },
	{ "no hunks", { "*** Begin Patch\n*** End Patch" }, "", "sub", NULL, 1,
		"No files were modified.\n", "1\n" },
	{ "mismatch",
		{ "*** Begin Patch\n*** Update File: a\n@@\n-missing\n+x\n*** End "
		  "Patch" },
		"", "sub", NULL, 1,
		"Failed to find expected lines in $W/sub/a:\nmissing\n", "1\n" },
	{ "outside of the current folder",
		{ "*** Begin Patch\n*** Update File: ../sub/a\n-1\n+2\n*** End Patch" },
		"", "sub", NULL, 1,
		"$W/sub/../sub/a leads outside of the workspace $W/sub\n", "1\n" },
	{ "outside: allowed",
		{ "--allow-outside", "*** Begin Patch\n*** Update File: "
				     "../sub/a\n-1\n+2\n*** End Patch" },
		"", "sub", NULL, 0, "Success. Updated the following files:\nM ../sub/a\n",
		"2\n" },
	{ "workspace",
		{ "*** Begin Patch\n*** Update File: ../sub/a\n-1\n+2\n*** End Patch" },
		"", "sub", "$W", 0, "Success. Updated the following files:\nM ../sub/a\n",
		"2\n" },
	{ "workspace: outside of it",
		{ "*** Begin Patch\n*** Delete File: ../../outside\n*** End Patch" }, "",
		"sub", "$W", 1,
		"$W/sub/../../outside leads outside of the workspace $W\n", "1\n" },
	{ "workspace: another folder's", { PATCH_TEXT }, "", "sub", "/etc", 0,
		"Success. Updated the following files:\nM a\n", "$HOME `x`\n" },
	{ "workspace: a name that begins like it",
		{ "*** Begin Patch\n*** Update File: ../sub/a\n-1\n+2\n*** End Patch" },
		"", "sub", "$W/su", 1,
		"$W/sub/../sub/a leads outside of the workspace $W/sub\n", "1\n" },
};

static void child(const struct row *row, const struct folder *f, int in, int out)
{
	char *argv[6] = { (char *)(uintptr_t) "apply_patch" };
	struct gb_buf workspace = { 0 };
	int argc = 1;

	for (size_t i = 0; i < 4 && row->args[i]; i++)
		argv[argc++] = (char *)(uintptr_t)row->args[i];
	unsetenv("GLOVEBOX_WORKSPACE");
	if (row->workspace) {
		folder_expand(f, row->workspace, &workspace);
		setenv("GLOVEBOX_WORKSPACE", (char *)workspace.data, 1);
		gb_buf_done(&workspace);
	}
	if (fchdir(f->root) < 0 || chdir(row->cwd) < 0)
		_exit(98);
	dup2(in, 0);
	dup2(out, row->code ? 2 : 1);
	_exit(gb_patch_main(argc, argv));
}

static void one(void **state)
{
	const struct row *row = *state;
	struct gb_buf expected = { 0 };
	struct folder f;
	char got[2000] = "";
	size_t n = 0;
	int in[2];
	int out[2];
	int status;
	pid_t pid;

	folder_make(&f);
	put_entry(f.root, &(struct entry){ "sub/a", "1\n", 0 });
	folder_expand(&f, row->out, &expected);
	assert_int_equal(pipe(in), 0);
	assert_int_equal(pipe(out), 0);
	assert_int_equal(gb_fd_write_full(in[1], row->in, strlen(row->in), NULL), 0);
	close(in[1]);
	fflush(stdout);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		child(row, &f, in[0], out[1]);
	close(in[0]);
	close(out[1]);
	assert_int_equal(gb_fd_read_full(out[0], got, sizeof(got) - 1, &n, NULL), 0);
	close(out[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), row->code);
	assert_string_equal(got, (char *)expected.data);
	check_entry(f.root, &(struct entry){ "sub/a", row->a, 0 });
	gb_buf_done(&expected);
	folder_remove(&f);
}

int main(void)
{
	static struct rows_list l;

	rows_add(&l, rows, one);
	return rows_run("patch-main", &l);
}
