#!/bin/busybox sh
# What a virtual machine begins with: the disk of the machine that it runs on, to be read alone, and folders in
# memory where something is to be written.
/bin/busybox --install -s /bin
export PATH=/bin
for module in /modules/*.ko; do
    insmod "$module" || echo "$module is not loaded"
done
mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,cache=loose,ro disk /disk || echo "no disk"
for mounted in proc:proc sysfs:sys devtmpfs:dev tmpfs:tmp tmpfs:run tmpfs:var/lib; do
    mount -t "${mounted%%:*}" none "/disk/${mounted##*:}" || echo "no ${mounted##*:}"
done
exec chroot /disk /bin/sh "$(cat /script)"
