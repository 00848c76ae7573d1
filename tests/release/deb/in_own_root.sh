# Run as: unshare --mount --pid --fork --kill-child bash in_own_root.sh FOLDER SCRIPT ARGUMENTS…
# SCRIPT sees this machine's system, and whatever it changes lies in memory and is gone with it.
set -e
folder=$1; script=$2; shift 2
mount -t tmpfs -o size=1500m tmpfs "$folder"
mkdir "$folder/upper" "$folder/work" "$folder/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$folder/upper,workdir=$folder/work" "$folder/root"
mount -t proc proc "$folder/root/proc"
mount --rbind /dev "$folder/root/dev"
mount -t tmpfs tmpfs "$folder/root/run"
mkdir -p "$folder/root/tmp/given"
cp "$script" "$@" "$folder/root/tmp/given"
names=(); for path in "$@"; do names+=("/tmp/given/${path##*/}"); done
exec chroot "$folder/root" /bin/bash "/tmp/given/${script##*/}" "${names[@]}"
