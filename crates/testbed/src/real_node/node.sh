# The init process of the node's namespaces: mounts what the node must see, then waits until its owner ends. The kernel then
# kills all processes in the namespaces and removes the mounts and the network.
# Arguments: state folder, name of the node's cgroup, name of the node, programs. Prints errors on standard error.
set -eu
folder=$1 cgroup=$2 node=$3
shift 3
# procfs still shows the machine's process ids.
read -r pid _ </proc/self/stat

mkdir -p "$folder/move"
while read -r point; do
    # Nothing may remain below the mount: runc and the kubelet would find the parent cgroup first.
    mount --bind "$point/$cgroup" "$folder/move"
    umount "$point"
    mount --move "$folder/move" "$point"
    if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
        for controller in $(cat "$point/cgroup.controllers"); do
            echo "+$controller" >"$point/cgroup.subtree_control"
        done
    fi
done <"$folder/cgroups"

# The machine may have these programs below the folders that are replaced next.
mkdir -p "$folder/bin"
for program in "$@"; do
    : >"$folder/bin/${program##*/}"
    mount --bind "$program" "$folder/bin/${program##*/}"
done
for replaced in run var/lib var/log; do
    mkdir -p "$folder/$replaced"
    mount --bind "$folder/$replaced" "/$replaced"
done
mount --make-rshared /

mount -t proc proc /proc
# The kubelet writes these settings of the machine unless they have its values.
for setting in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 \
    kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
    path=${setting%=*}
    mkdir -p "$folder/sysctl/${path%/*}"
    echo "${setting#*=}" >"$folder/sysctl/$path"
    mount --bind "$folder/sysctl/$path" "/proc/sys/$path"
done

ip link set lo up
hostname "$node"
echo 1 >/proc/sys/net/ipv4/ip_forward
# Other file systems, such as overlayfs itself, refuse to be layers.
mkdir -p "$folder/overlay/lower" "$folder/overlay/upper" "$folder/overlay/work" "$folder/overlay/merged"
snapshotter=native
if mount -t overlay overlay "$folder/overlay/merged" \
    -o "lowerdir=$folder/overlay/lower,upperdir=$folder/overlay/upper,workdir=$folder/overlay/work" 2>/dev/null; then
    umount "$folder/overlay/merged"
    snapshotter=overlayfs
fi
echo "$pid $snapshotter" >"$folder/ready.new"
mv "$folder/ready.new" "$folder/ready"
# As the init process, this shell also reaps the containers' shims.
cat >/dev/null
