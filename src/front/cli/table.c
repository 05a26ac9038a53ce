#include "front/cli/table.h"

#include "base/str.h"

#define NO_KEY GB_CLI_NO_KEY
#define BIT(o) (UINT64_C(1) << (o))

const struct gb_cli_option gb_cli_options[OPT_COUNT] = {
	{OPT_HELP, 'h', "help", NULL, WORD_TEXT, NO_KEY, "show this help", "--help"},
	{OPT_NAME, 'n', "name", "NAME", WORD_MACHINE, NO_KEY,
		"the machine's name; without it, the machine that belongs to this folder",
		"--name build"},
	{OPT_MACHINE, 0, "machine", "NAME", WORD_MACHINE, NO_KEY,
		"the machine to work in; without it, the one that belongs to this folder",
		"--machine build"},
	{OPT_RM, 0, "rm", NULL, WORD_TEXT, NO_KEY,
		"use a machine of its own that is removed afterwards", "--rm"},
	{OPT_IMAGE, 0, "image", "IMAGE", WORD_IMAGE, GB_CONFIG_IMAGE_DEFAULT,
		"image of the machine when it is created: a name, a digest, or a source "
		"that is "
		"imported once",
		"--image debootstrap:bookworm"},
	{OPT_ROOT, 0, "root", "FILE", WORD_FILE, NO_KEY,
		"use FILE, a raw ext4 file system, as the root in place instead of an "
		"image",
		"--root ./disk.ext4"},
	{OPT_CPUS, 0, "cpus", "N", WORD_TEXT, GB_CONFIG_CPUS, "processors", "--cpus 4"},
	{OPT_MEMORY, 'm', "memory", "SIZE", WORD_TEXT, GB_CONFIG_MEMORY,
		"memory, taken from the host as it is used; a bare number is MiB",
		"--memory 4G"},
	{OPT_DISK, 0, "disk", "SIZE", WORD_TEXT, GB_CONFIG_DISK,
		"size of the root disk, sparse; it can grow later, never shrink; a bare "
		"number "
		"is GiB",
		"--disk 40G"},
	{OPT_ACCEL, 0, "accel", "KIND", WORD_ACCEL, GB_CONFIG_ACCEL,
		"how processors are run: auto, kvm, hvf or tcg", "--accel tcg"},
	{OPT_VOLUME, 'v', "volume", "HOST:GUEST[:ro]", WORD_FOLDER, GB_CONFIG_SHARE_LIST,
		"share one more host folder with the machine; repeatable",
		"-v ~/data:/data:ro"},
	{OPT_KERNEL, 0, "kernel", "FILE", WORD_FILE, GB_CONFIG_KERNEL,
		"guest kernel (vmlinuz or vmlinux)", "--kernel ./boot/vmlinuz-6.1"},
	{OPT_MODULES, 0, "modules", "DIR", WORD_FOLDER, GB_CONFIG_MODULES,
		"modules folder of that kernel", "--modules ./lib/modules/6.1"},
	{OPT_WORKDIR, 'w', "workdir", "DIR", WORD_TEXT, NO_KEY,
		"working directory inside (default: /work, or the machine's)", "-w /tmp"},
	{OPT_ENV, 'e', "env", "K[=V]", WORD_TEXT, NO_KEY,
		"set a variable; without a value, pass ours on when it is set; "
		"repeatable",
		"-e CI=1 -e LANG"},
	{OPT_USER, 'u', "user", "USER", WORD_TEXT, NO_KEY,
		"user inside: name, uid, uid:gid (default: the machine's, else root)",
		"-u 1000:1000"},
	{OPT_TTY, 't', "tty", NULL, WORD_TEXT, NO_KEY,
		"give the command a terminal; the keyboard is passed on too", "-t"},
	{OPT_INTERACTIVE, 'i', "interactive", NULL, WORD_TEXT, NO_KEY,
		"pass standard input on even from a terminal (a pipe or a file always "
		"is)",
		"-i"},
	{OPT_DETACH, 'd', "detach", NULL, WORD_TEXT, NO_KEY,
		"start the command and return at once; it lives on", "-d"},
	{OPT_TIMEOUT, 0, "timeout", "TIME", WORD_TEXT, NO_KEY,
		"end the command after TIME (seconds, or 500ms, 2m, 1h): TERM, then KILL "
		"5 s "
		"later; exit code 124",
		"--timeout 90"},
	{OPT_FORCE, 'f', "force", NULL, WORD_TEXT, NO_KEY,
		"do not ask the guest; rm: stop a running machine first", "--force"},
	{OPT_STOP_TIME, 't', "time", "TIME", WORD_TEXT, NO_KEY,
		"how long the guest may take before it is cut off (default: 10 s)",
		"-t 30"},
	{OPT_CONSOLE, 0, "console", NULL, WORD_TEXT, NO_KEY,
		"what the guest's kernel printed", "--console"},
	{OPT_SUPERVISOR, 0, "supervisor", NULL, WORD_TEXT, NO_KEY,
		"what the supervisor logged (default)", "--supervisor"},
	{OPT_FOLLOW, 'f', "follow", NULL, WORD_TEXT, NO_KEY,
		"go on printing what is added, until interrupted", "-f"},
	{OPT_OWNER, 'u', "user", "USER", WORD_TEXT, NO_KEY,
		"who owns what is written in the guest (default: the machine's user)",
		"-u root"},
	{OPT_IMPORT_NAME, 'n', "name", "NAME", WORD_IMAGE, NO_KEY,
		"name of the new image; an image that had it keeps its other names",
		"--name dev"},
	{OPT_QUIET, 'q', "quiet", NULL, WORD_TEXT, NO_KEY, "print names only", "-q"},
	{OPT_JSON, 0, "json", NULL, WORD_TEXT, NO_KEY, "print JSON", "--json"},
};

#define EXAMPLES(...)                                                                    \
	(const char *const[])                                                            \
	{                                                                                \
		__VA_ARGS__, NULL                                                        \
	}
#define SHAPE_OPTIONS                                                                    \
	(BIT(OPT_IMAGE) | BIT(OPT_ROOT) | BIT(OPT_CPUS) | BIT(OPT_MEMORY) |              \
		BIT(OPT_DISK) | BIT(OPT_ACCEL) | BIT(OPT_VOLUME) | BIT(OPT_KERNEL) |     \
		BIT(OPT_MODULES))
#define COMMAND_OPTIONS (BIT(OPT_WORKDIR) | BIT(OPT_ENV) | BIT(OPT_USER))
#define STREAM_OPTIONS	(BIT(OPT_TTY) | BIT(OPT_INTERACTIVE) | BIT(OPT_TIMEOUT))

#define EXIT_CODES                                                                       \
	"Exit code: the command's own, 128+n when signal n ended it, 124 when it ran "   \
	"out "                                                                           \
	"of time, 126 when it is not executable, 127 when it was not found, 125 when "   \
	"glovebox itself failed."
#define STREAMS                                                                          \
	"Standard input is passed on when it is a pipe, a file or a socket, or with -i " \
	"or -t; otherwise the command reads end of file. Signals that end glovebox "     \
	"(Ctrl-C, TERM, HUP, QUIT) go to the command's process group; a second one "     \
	"within "                                                                        \
	"2 s ends glovebox at once, and with it the command."

const struct gb_cli_command gb_cli_commands[CMD_COUNT] = {
	{CMD_RUN, NULL, "run", "[--] COMMAND [ARG]...",
		"run a command in a machine, made and started when needed",
		"The current directory is at /work inside. Without --name or --rm the "
		"machine "
		"is the one that belongs to the current directory: created at first use, "
		"used "
		"again later, with what was installed in it. Options about the machine's "
		"shape "
		"count when it is created; for an existing one they must agree with it "
		"(glovebox set changes it).\n" STREAMS "\n" EXIT_CODES,
		EXAMPLES("glovebox run -- make test", "glovebox run ls -la",
			"glovebox run --rm --image dev -e CI=1 -- sh -c 'uname -r; id'",
			"tar c . | glovebox run --name build -- tar tv"),
		BIT(OPT_NAME) | BIT(OPT_RM) | SHAPE_OPTIONS | COMMAND_OPTIONS |
			STREAM_OPTIONS,
		1, GB_CLI_MANY, WORD_COMMAND, true, 125},
	{CMD_EXEC, NULL, "exec", "MACHINE [--] COMMAND [ARG]...",
		"run a command in a machine that is running", STREAMS "\n" EXIT_CODES,
		EXAMPLES("glovebox exec build -- make -j4", "glovebox exec -t build bash",
			"glovebox exec -d build -- python3 -m http.server"),
		BIT(OPT_DETACH) | COMMAND_OPTIONS | STREAM_OPTIONS, 2, GB_CLI_MANY,
		WORD_MACHINE, true, 125},
	{CMD_SHELL, NULL, "shell", "[MACHINE]", "open a shell in a machine",
		"Without MACHINE, the machine that belongs to the current directory. It "
		"is "
		"created and started when needed.",
		EXAMPLES("glovebox shell", "glovebox shell build -u root"),
		COMMAND_OPTIONS, 0, 1, WORD_MACHINE, false, 125},
	{CMD_CREATE, NULL, "create", "[NAME]", "create a machine without starting it",
		"Without NAME, the machine that belongs to the current directory. The "
		"current "
		"directory will be at /work inside.",
		EXAMPLES("glovebox create", "glovebox create build --cpus 4 --memory 8G"),
		SHAPE_OPTIONS | COMMAND_OPTIONS, 0, 1, WORD_TEXT, false, 1},
	{CMD_START, NULL, "start", "MACHINE...", "start machines; running ones are fine",
		NULL, EXAMPLES("glovebox start build"), 0, 1, GB_CLI_MANY, WORD_MACHINE,
		false, 1},
	{CMD_STOP, NULL, "stop", "MACHINE...", "stop machines; stopped ones are fine",
		"The guest syncs its disk and powers off; after the time it is cut off.",
		EXAMPLES("glovebox stop build", "glovebox stop -t 30 build db"),
		BIT(OPT_STOP_TIME) | BIT(OPT_FORCE), 1, GB_CLI_MANY, WORD_MACHINE, false,
		1},
	{CMD_RM, NULL, "rm", "MACHINE...", "remove machines with their disks",
		"A crashed or damaged machine can always be removed; a running one with "
		"--force. Shared folders of the host are not touched.",
		EXAMPLES("glovebox rm build", "glovebox rm -f build db"), BIT(OPT_FORCE),
		1, GB_CLI_MANY, WORD_MACHINE, false, 1},
	{CMD_LS, NULL, "ls", "", "list machines", NULL,
		EXAMPLES("glovebox ls", "glovebox ls --json"),
		BIT(OPT_QUIET) | BIT(OPT_JSON), 0, 0, WORD_TEXT, false, 1},
	{CMD_INSPECT, NULL, "inspect", "MACHINE...",
		"show what machines are and how they do", NULL,
		EXAMPLES("glovebox inspect build", "glovebox inspect --json build"),
		BIT(OPT_JSON), 1, GB_CLI_MANY, WORD_MACHINE, false, 1},
	{CMD_SET, NULL, "set", "MACHINE", "change a stopped machine",
		"The disk only grows; its file system grows at the next start.",
		EXAMPLES("glovebox set build --disk 40G",
			"glovebox set build --cpus 4 -m 8G"),
		BIT(OPT_CPUS) | BIT(OPT_MEMORY) | BIT(OPT_DISK) | BIT(OPT_ACCEL) |
			BIT(OPT_WORKDIR) | BIT(OPT_USER),
		1, 1, WORD_MACHINE, false, 1},
	{CMD_LOGS, NULL, "logs", "MACHINE", "print a machine's logs", NULL,
		EXAMPLES("glovebox logs build", "glovebox logs --console -f build"),
		BIT(OPT_CONSOLE) | BIT(OPT_SUPERVISOR) | BIT(OPT_FOLLOW), 1, 1,
		WORD_MACHINE, false, 1},
	{CMD_CP, NULL, "cp", "SRC DST",
		"copy files and trees between the host and a running machine",
		"One of SRC and DST is MACHINE:PATH, the other a path of the host. "
		"Modes, times "
		"and symbolic links are kept. Into an existing folder the copy goes "
		"below it, "
		"under its own name; a slash at the end of DST means that it must be a "
		"folder. "
		"A host path with a colon is written with a slash: ./a:b.",
		EXAMPLES("glovebox cp build:/work/out.tar .",
			"glovebox cp ./src build:/tmp/"),
		BIT(OPT_OWNER), 2, 2, WORD_COPY, false, 1},
	{CMD_MCP, NULL, "mcp", "",
		"serve the model's tools to an agent (MCP on standard input and output)",
		"For agents that speak the Model Context Protocol: they start this command and "
		"get exec_command, write_stdin, apply_patch and view_image, which work in the "
		"machine. It is made and started at the first call, as by run; the one of --rm "
		"goes when the client does. Commands that a call left running as sessions live "
		"on in a machine that stays (glovebox sessions, glovebox attach). Messages for "
		"people go to standard error.",
		EXAMPLES("glovebox mcp", "glovebox mcp --rm --image dev",
			"glovebox mcp --machine build --workdir /work/src"),
		BIT(OPT_MACHINE) | BIT(OPT_RM) | SHAPE_OPTIONS | COMMAND_OPTIONS, 0, 0,
		WORD_TEXT, false, 1},
	{CMD_TOOL, NULL, "tool", "[TOOL [JSON|-]]", "make one call of a model's tool",
		"Prints what the model would read; with --json an object with success, text and "
		"the structured value. The arguments are JSON, '-' reads them from standard "
		"input; a patch may be given bare. Without TOOL, the tools are listed (--json: "
		"with their schemas). Exit code 1 when the tool failed.",
		EXAMPLES("glovebox tool exec_command '{\"cmd\":\"make\"}'",
			"cat fix.patch | glovebox tool apply_patch -", "glovebox tool --json"),
		BIT(OPT_MACHINE) | BIT(OPT_RM) | BIT(OPT_JSON) | SHAPE_OPTIONS | COMMAND_OPTIONS,
		0, 2, WORD_TOOL, false, 1},
	{CMD_SESSIONS, NULL, "sessions", "[MACHINE]", "list sessions that run in a machine",
		"What exec_command started and did not wait for until its end. Without MACHINE, "
		"the machine that belongs to the current directory.",
		EXAMPLES("glovebox sessions", "glovebox sessions --json build"), BIT(OPT_JSON), 0,
		1, WORD_MACHINE, false, 1},
	{CMD_ATTACH, NULL, "attach", "MACHINE SESSION", "join a session with this terminal",
		"Shows what it wrote so far, then what it writes; what is typed goes to it. "
		"Ctrl-P Ctrl-Q leaves it alone again. " EXIT_CODES,
		EXAMPLES("glovebox attach build 3"), 0, 2, 2, WORD_MACHINE, false, 125},
	{CMD_IMAGE_IMPORT, "image", "import", "SOURCE",
		"make an image and print its digest",
		"SOURCE is rootfs:DIR, tar:FILE (plain, gz, zst or xz), or "
		"debootstrap:SUITE[?include=a,b&variant=minbase].",
		EXAMPLES("glovebox image import --name dev rootfs:./root",
			"glovebox image import --name sid "
			"'debootstrap:sid?variant=minbase'"),
		BIT(OPT_IMPORT_NAME), 1, 1, WORD_FILE, false, 1},
	{CMD_IMAGE_LS, "image", "ls", "", "list images", NULL,
		EXAMPLES("glovebox image ls", "glovebox image ls --json"),
		BIT(OPT_QUIET) | BIT(OPT_JSON), 0, 0, WORD_TEXT, false, 1},
	{CMD_IMAGE_RM, "image", "rm", "IMAGE...", "remove images or names of images",
		"An image goes with its last name, or whole when its digest is given; "
		"not while "
		"a machine uses it.",
		EXAMPLES("glovebox image rm dev"), 0, 1, GB_CLI_MANY, WORD_IMAGE, false,
		1},
	{CMD_IMAGE_INSPECT, "image", "inspect", "IMAGE...", "show what an image is", NULL,
		EXAMPLES("glovebox image inspect dev",
			"glovebox image inspect --json dev"),
		BIT(OPT_JSON), 1, GB_CLI_MANY, WORD_IMAGE, false, 1},
	{CMD_CONFIG_SHOW, "config", "show", "",
		"print every setting and where it comes from", NULL,
		EXAMPLES("glovebox config show",
			"GLOVEBOX_CPUS=4 glovebox config show --json"),
		BIT(OPT_JSON), 0, 0, WORD_TEXT, false, 1},
	{CMD_CONFIG_CHECK, "config", "check", "[FILE]", "check the configuration",
		"Prints what is wrong or unknown, with line and column; exit code 1 when "
		"something is wrong, 2 when a file cannot be read as TOML. FILE is read "
		"as your "
		"own configuration, or as a project's when it is called .glovebox.toml.",
		EXAMPLES("glovebox config check", "glovebox config check ./config.toml"),
		0, 0, 1, WORD_FILE, false, 1},
	{CMD_CONFIG_PATH, "config", "path", "",
		"print where the configuration is read from",
		"Your own file first, whether it exists or not, then the project's if "
		"there is "
		"one.",
		EXAMPLES("$EDITOR $(glovebox config path | head -1)"), 0, 0, 0, WORD_TEXT,
		false, 1},
	{CMD_DOCTOR, NULL, "doctor", "", "say what this host can do and what is missing",
		NULL, EXAMPLES("glovebox doctor", "glovebox doctor --json"),
		BIT(OPT_JSON), 0, 0, WORD_TEXT, false, 1},
	{CMD_COMPLETION, NULL, "completion", "bash|zsh|fish", "print a completion script",
		"bash: source it from ~/.bashrc. zsh: save it as _glovebox in a folder "
		"of "
		"$fpath. fish: save it as ~/.config/fish/completions/glovebox.fish.",
		EXAMPLES("source <(glovebox completion bash)"), 0, 1, 1, WORD_SHELL,
		false, 1},
	{CMD_VERSION, NULL, "version", "", "print the version", NULL,
		EXAMPLES("glovebox version", "glovebox version --json"), BIT(OPT_JSON), 0,
		0, WORD_TEXT, false, 1},
	{CMD_HELP, NULL, "help", "[COMMAND]...", "show help", NULL,
		EXAMPLES("glovebox help run", "glovebox help image import"), 0, 0, 2,
		WORD_OWN, false, 1},
};

const char *const gb_cli_groups[] = {"image", "config", NULL};

const struct gb_cli_command *gb_cli_command_find(const char *group, const char *name)
{
	for (size_t i = 0; i < CMD_COUNT; i++)
		if (gb_streq(gb_cli_commands[i].group, group) &&
			gb_streq(gb_cli_commands[i].name, name))
			return &gb_cli_commands[i];
	return NULL;
}

bool gb_cli_is_group(const char *name)
{
	for (const char *const *g = gb_cli_groups; *g; g++)
		if (gb_streq(*g, name))
			return true;
	return false;
}

bool gb_cli_takes(const struct gb_cli_command *c, enum gb_cli_option_id id)
{
	return id == OPT_HELP || c->options >> id & 1;
}
