#!/bin/sh
# First process of the emulated machine: mounts the file systems of a node, runs the tests, prints their status, and resets the machine.
export PATH=/bin HOME=/ RUST_TEST_THREADS=1
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t securityfs securityfs /sys/kernel/security
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /run
mount -t cgroup2 cgroup2 /sys/fs/cgroup
# The kernel boots with one CPU (maxcpus=1).
for cpu in /sys/devices/system/cpu/cpu[1-9]*; do
    echo 1 > "$cpu/online"
done
# Sets IFF_UP; the kernel then assigns 127.0.0.1.
echo 0x9 > /sys/class/net/lo/flags
read -r version < /proc/version
read -r controllers < /sys/fs/cgroup/cgroup.controllers
echo "guest: $version"
echo "guest: cgroup version 2 with $controllers"

status=0
for test in /tests/*; do
    echo "guest: ${test##*/}"
    "$test" "$@" || status=$?
done
echo "guest: tests ended with $status"
# stty waits until the console has written all output; the reset would lose the rest.
stty -F /dev/ttyS0 -echo
echo b > /proc/sysrq-trigger
