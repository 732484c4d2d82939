#!/bin/sh
# First process of the emulated machine: mounts what a node has, runs the tests, says how they ended, ends the machine.
export PATH=/bin HOME=/ RUST_TEST_THREADS=1
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t securityfs securityfs /sys/kernel/security
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /run
mount -t cgroup2 cgroup2 /sys/fs/cgroup
# The kernel was told to boot with one.
for cpu in /sys/devices/system/cpu/cpu[1-9]*; do
    echo 1 > "$cpu/online"
done
# Up; the kernel then gives it its address.
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
# Settings of the console change once all of that is out; the machine would end before.
stty -F /dev/ttyS0 -echo
echo b > /proc/sysrq-trigger
