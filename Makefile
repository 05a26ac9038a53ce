# For people; Meson does the work. `make help` lists what there is.
BUILD ?= build
ifeq ($(origin CC),default)
CC = gcc
endif
export CC

.PHONY: all deps demo check check-san check-fuzz check-valgrind check-static check-user check-e2e \
	bench install help clean test-unit test-vm test-vm-user

all: ## build; the command is build/glovebox
	@tools/configure $(BUILD)
	@ninja -C $(BUILD)

deps: ## install Debian packages, unpack a guest kernel (root or sudo; nothing when all is there)
	@tools/deps

demo: deps ## deps, build, make an image, boot, run a command on this directory
	@$(MAKE) --no-print-directory all
	@tools/demo $(BUILD)

check: test-unit test-vm ## unit tests and tests in real machines

test-unit: all ## unit tests and replays of the fuzz seeds
	@meson test -C $(BUILD) --no-rebuild --print-errorlogs --suite unit --suite share --suite media --suite fuzz

test-vm: all ## tests in real machines (QEMU; accelerated where it can be)
	@meson test -C $(BUILD) --no-rebuild --print-errorlogs --suite vm

test-vm-user: all
	@meson test -C $(BUILD) --no-rebuild --print-errorlogs --suite vm-user

check-san: ## unit tests and fuzz seeds under ASan and UBSan
	@tools/configure build-san -Db_sanitize=address,undefined -Db_lundef=false
	@ninja -C build-san
	@meson test -C build-san --no-rebuild --print-errorlogs --suite unit --suite fuzz

check-fuzz: ## each libFuzzer target for FUZZ_SECONDS (20), and the coverage of the seeds
	@CC=clang tools/configure build-fuzz -Dfuzz=true -Db_sanitize=address,undefined -Db_lundef=false
	@ninja -C build-fuzz fuzz-targets
	@tools/fuzz-run build-fuzz $(or $(FUZZ_SECONDS),20)
	@tools/fuzz-coverage

check-valgrind: all ## unit tests under valgrind
	@meson test -C $(BUILD) --no-rebuild --print-errorlogs --setup valgrind --suite unit

check-static: ## floors, docs, limits, scripts; the whole build with clang
	@tools/check-floors --self-test
	@tools/check-floors
	@tools/gen-limits --check
	@tools/check-docs
	@shellcheck tools/deps tools/configure tools/demo tools/fuzz-run tools/fuzz-coverage \
		tools/run-as-user tests/e2e/run .ci/run
	@CC=clang tools/configure build-clang
	@ninja -C build-clang

check-user: ## when run as root: unit tests and a part of the machine tests as an unprivileged user
	@tools/run-as-user

check-e2e: all ## real Codex, pi and the MCP SDK's client against glovebox mcp (npm's registry)
	@tests/e2e/run $(BUILD)

bench: all ## the performance figures, as JSON
	@ninja -C $(BUILD) bench

install: all ## install (DESTDIR and meson's prefix are respected)
	@meson install -C $(BUILD) --no-rebuild

clean: ## remove the build folders
	rm -rf build build-san build-fuzz build-clang build-cov

help: ## this list
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 24
