# Runs outside the node's namespaces, and outlives the owner: creates the node's cgroups, runs node.sh in new namespaces, and
# removes the cgroups after the last process of the node has ended.
# Arguments: those of node.sh. Standard input closes at the owner's end.
trap '' HUP INT TERM
folder=$1 cgroup=$2

points=$(
    while read -r _ _ _ _ point rest; do
        case $point in /sys/fs/cgroup*) ;; *) continue ;; esac
        case $rest in *' - cgroup '* | *' - cgroup2 '*) echo "$point" ;; esac
    done </proc/self/mountinfo
)

# Creates a cgroup with the CPUs of its parent. A cgroup of version 1 starts without CPUs; one of version 2 inherits them.
create() {
    mkdir "$1"
    if [ -e "$1/cgroup.controllers" ]; then return; fi
    for file in cpuset.cpus cpuset.mems; do
        if [ -e "$1/$file" ]; then cat "${1%/*}/$file" >"$1/$file"; fi
    done
}

(
    set -e
    echo "$points" >"$folder/cgroups"
    for point in $points; do
        # Next to hierarchies of cgroup v1, the one of v2 has no controllers that a kubelet uses.
        if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
            for controller in $(cat "$point/cgroup.controllers"); do
                grep -qw "$controller" "$point/cgroup.subtree_control" ||
                    echo "+$controller" >"$point/cgroup.subtree_control"
            done
        fi
        create "$point/$cgroup"
        # With cgroup v2, a cgroup whose children have controllers has no processes of its own.
        create "$point/$cgroup/system"
        echo 0 >"$point/$cgroup/cgroup.procs"
    done
    # The cgroup namespace has this cgroup as its root, so it comes before the move to the cgroup of the processes.
    exec unshare --cgroup sh -c '
        while read -r point; do echo 0 >"$point/$2/system/cgroup.procs" || exit; done <"$1/cgroups"
        exec unshare --mount --pid --net --ipc --uts --fork sh "$1/node.sh" "$@"
    ' join "$@"
)
echo "status $?" >"$folder/ended"

cat >/dev/null
# A killed process may keep its cgroup for a moment.
tries=0
while [ $tries -lt 100 ]; do
    left=
    for point in $points; do
        [ -e "$point/$cgroup" ] || continue
        find "$point/$cgroup" -depth -type d -exec rmdir {} + 2>/dev/null
        [ -e "$point/$cgroup" ] && left=yes
    done
    [ -z "$left" ] && break
    tries=$((tries + 1))
    sleep 0.1
done
