/* Names that host and guest agree on: the virtio-serial ports
 * (/sys/class/virtio-ports/<x>/name in the guest) and the root disk. */
#ifndef GB_PROTO_PORTS_H
#define GB_PROTO_PORTS_H

#define GB_VM_PORT_CTL   "glovebox.ctl"
#define GB_VM_PORT_SHARE "glovebox.share"

/* Serial of the root block device; the agent finds the disk by it, never by letter. */
#define GB_VM_ROOT_SERIAL "gbroot"

#endif
