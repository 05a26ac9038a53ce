#!/bin/sh
# A boot bundle of the real guest kernel boots as it is, its modules load in their order, and
# asking for it again is answered from the cache. The lab's probe stands in for the agent: it
# loads what /modules.list names and complains about what cannot be loaded.
#   bundle-boot.sh GLOVEBOX-PREPARE LAB-PROBE [KERNEL-DIR]
set -eu
prepare=$1
agent=$2
if [ -z "${GLOVEBOX_KERNEL_DIR:-}" ] && [ -n "${3:-}" ]; then
	export GLOVEBOX_KERNEL_DIR="$3"
fi

skip() {
	echo "SKIPPED: $*"
	exit 77
}
fail() {
	echo "FAILED: $*"
	exit 1
}
[ "$(uname -m)" = x86_64 ] || skip "needs an x86-64 host"
command -v qemu-system-x86_64 >/dev/null || skip "qemu-system-x86_64 is not installed"
[ -d "${GLOVEBOX_KERNEL_DIR:-/nonexistent}/boot" ] || skip "no guest kernel: run 'make deps'"

dir=$(mktemp -d "${TMPDIR:-/tmp}/gb-lab-XXXXXX")
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM

bundle=$("$prepare" bundle --cache "$dir/cache" --agent "$agent")
again=$("$prepare" bundle --cache "$dir/cache" --agent "$agent" 2>"$dir/progress")
[ "$bundle" = "$again" ] || fail "two answers: '$bundle' and '$again'"
[ -s "$dir/progress" ] && fail "a bundle that is there was made again"
grep -q '"pvh": true' "$bundle/bundle.json" || echo "note: this kernel does not boot by PVH"

timeout 120 qemu-system-x86_64 \
	-M microvm,accel=tcg,acpi=on,pit=on,pic=on,rtc=off,isa-serial=on -cpu max -m 256 \
	-nodefaults -no-user-config -display none -serial "file:$dir/console" -no-reboot \
	-kernel "$bundle/kernel" -initrd "$bundle/initramfs" \
	-append "console=ttyS0 reboot=t panic=-1 quiet tsc_early_khz=2000000"
cat "$dir/console"
grep -q '^lab: again: ' "$dir/console" || fail "the guest did not come to its end"
grep -q '^lab: loaded [1-9]' "$dir/console" || fail "no modules in the bundle"
grep -q '^lab: cannot load' "$dir/console" && fail "a module could not be loaded"
exit 0
