#!/bin/sh
# The accelerator probe on a KVM that works, on any x86 machine: under emulation with an
# AMD processor that has svm, an outer guest loads kvm_amd, and its /dev/kvm is real.
#   kvm-probe.sh LAB-PACK LAB-PROBE [KERNEL-DIR]
set -eu
pack=$1
probe=$2
if [ -z "${GLOVEBOX_KERNEL_DIR:-}" ] && [ -n "${3:-}" ]; then
	export GLOVEBOX_KERNEL_DIR="$3"
fi

skip() {
	echo "SKIPPED: $*"
	exit 77
}
[ "$(uname -m)" = x86_64 ] || skip "needs an x86-64 host"
command -v qemu-system-x86_64 >/dev/null || skip "qemu-system-x86_64 is not installed"

dir=$(mktemp -d "${TMPDIR:-/tmp}/gb-lab-XXXXXX")
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM
"$pack" "$dir" "$probe" kvm_amd || skip "no kernel with kvm_amd: run 'make deps'"

timeout 120 qemu-system-x86_64 \
	-M microvm,accel=tcg,acpi=on,pit=on,pic=on,rtc=off,isa-serial=on -cpu max,+svm -m 512 \
	-nodefaults -no-user-config -display none -serial "file:$dir/console" -no-reboot \
	-kernel "$dir/kernel" -initrd "$dir/initramfs" \
	-append "console=ttyS0 reboot=t panic=-1 quiet tsc_early_khz=2000000"
grep '^lab: ' "$dir/console" || {
	cat "$dir/console"
	echo "FAILED: the outer guest said nothing"
	exit 1
}
grep -q '^lab: bare guest: /dev/kvm runs a bare guest' "$dir/console"
