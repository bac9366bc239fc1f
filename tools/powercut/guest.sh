#!/bin/sh
# guest.sh - the only program of the User-Mode-Linux guest: works on a logged device until the power
# is cut, or checks the devices that a cut has left.
#
# The root is the host's, read-only. What to do comes in the kernel's command line. Answers go to
# the console, one line each, with "powercut" in front.
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
say() { echo "powercut $*"; }
finish() { say "$@"; exec sleep 1000000; }   # the host ends the guest

mount -t proc proc /proc || finish "failed: no /proc"
for word in $(cat /proc/cmdline); do
    case $word in
    rig_*=*) eval "${word%%=*}='${word#*=}'" ;;
    esac
done
mount -t tmpfs tmpfs /mnt || finish "failed: no tmpfs on /mnt"
mkdir /mnt/disk

load_modules() {
    at=/usr/lib/uml/modules/$(uname -r)/kernel/drivers/md
    insmod "$at/dm-mod.ko" && insmod "$at/dm-log-writes.ko"
}

# ubdb: the disk; ubdc: where its writes are logged.
work() {
    load_modules || finish "failed: no dm-log-writes in this kernel"
    mkdir -p /dev/mapper
    sectors=$(blockdev --getsz /dev/ubdb)
    DM_DISABLE_UDEV=1 dmsetup create rig --table "0 $sectors log-writes /dev/ubdb /dev/ubdc" ||
        finish "failed: dmsetup create"
    mount -t "$rig_type" /dev/mapper/rig /mnt/disk || finish "failed: mount"
    say "works"
    "$rig_program" run /mnt/disk/store --seed "$rig_seed" --clients "$rig_clients" \
        --transactions 1000000 --workers 1 --mark rig
    finish "failed: the work ended with status $?"
}

# check LETTER AHEAD: the disk of a cut, ubdLETTER. AHEAD: see lockstep-acked check --help.
check() {
    say "begins $1"
    if mount -t "$rig_type" "/dev/ubd$1" /mnt/disk; then
        "$rig_program" check /mnt/disk/store --seed "$rig_seed" --clients "$rig_clients" \
            --acked "$rig_acked/$1.acked" --ahead "$2" 2>&1 | sed 's/^/powercut /'
        umount /mnt/disk || say "fault: unmount"
    else
        say "fault: the file system cannot be mounted"
    fi
    say "ends $1"
}

case $rig_mode in
work) work ;;
check)
    for pair in $(echo "$rig_letters" | tr , ' '); do
        check "${pair%%:*}" "${pair#*:}"
    done
    finish "done"
    ;;
*) finish "ready" ;;
esac
