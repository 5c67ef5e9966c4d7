"""Numbers of the system calls the filter names; aarch64 is written from the tables, not run."""

from __future__ import annotations

AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

# One number on every architecture.
_COMMON = {
    "pidfd_send_signal": 424,
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "pidfd_open": 434,
    "clone3": 435,
    "openat2": 437,
    "pidfd_getfd": 438,
    "process_madvise": 440,
    "mount_setattr": 442,
    "quotactl_fd": 443,
    "memfd_secret": 447,
    "fchmodat2": 452,
    "open_tree_attr": 467,
}

_NAMES = (
    "socket socketpair ptrace process_vm_readv process_vm_writev mount umount2 pivot_root chroot "
    "unshare setns clone keyctl add_key request_key bpf perf_event_open userfaultfd kexec_load "
    "kexec_file_load init_module finit_module delete_module reboot swapon swapoff acct "
    "settimeofday clock_settime adjtimex clock_adjtime sethostname setdomainname quotactl "
    "open_by_handle_at name_to_handle_at fanotify_init ioctl kcmp syslog vhangup seccomp "
    "prlimit64 sched_setaffinity sched_setscheduler sched_setparam setpriority kill tkill tgkill "
    "rt_sigqueueinfo rt_tgsigqueueinfo shmget semget msgget mq_open move_pages migrate_pages "
    "sched_setattr ioprio_set openat mkdirat mknodat fchmod fchmodat mmap memfd_create io_setup "
    "listen inotify_init1 fcntl"
).split()

_X86_64 = (
    41, 53, 101, 310, 311, 165, 166, 155, 161,
    272, 308, 56, 250, 248, 249, 321, 298, 323, 246,
    320, 175, 313, 176, 169, 167, 168, 163,
    164, 227, 159, 305, 170, 171, 179,
    304, 303, 300, 16, 312, 103, 153, 317,
    302, 203, 144, 142, 141, 62, 200, 234,
    129, 297, 29, 64, 68, 240, 279, 256,
    314, 251, 257, 258, 259, 91, 268, 9, 319, 206,
    50, 294, 72,
)  # fmt: skip
_AARCH64 = (
    198, 199, 117, 270, 271, 40, 39, 41, 51,
    97, 268, 220, 219, 217, 218, 280, 241, 282, 104,
    294, 105, 273, 106, 142, 224, 225, 89,
    170, 112, 171, 266, 161, 162, 60,
    265, 264, 262, 29, 272, 116, 58, 277,
    261, 122, 119, 118, 140, 129, 130, 131,
    138, 240, 194, 190, 186, 180, 239, 238,
    274, 30, 56, 34, 33, 52, 53, 222, 279, 0,
    201, 26, 25,
)  # fmt: skip

NUMBERS = {
    "x86_64": {
        **_COMMON,
        **dict(zip(_NAMES, _X86_64)),
        # What other architectures never had.
        "iopl": 172,
        "ioperm": 173,
        "modify_ldt": 154,
        "open": 2,
        "creat": 85,
        "mkdir": 83,
        "mknod": 133,
        "chmod": 90,
        "inotify_init": 253,
    },
    "aarch64": {**_COMMON, **dict(zip(_NAMES, _AARCH64))},
}

# Refused whatever their arguments. The last row would leave memory behind after the call.
DENIED = (
    "ptrace process_vm_readv process_vm_writev process_madvise pidfd_getfd kcmp "
    "mount umount2 pivot_root chroot unshare setns open_tree open_tree_attr move_mount fsopen "
    "fsconfig fsmount fspick mount_setattr open_by_handle_at name_to_handle_at fanotify_init "
    "keyctl add_key request_key bpf perf_event_open userfaultfd memfd_secret "
    "io_uring_setup io_uring_enter io_uring_register io_setup "
    "kexec_load kexec_file_load init_module finit_module delete_module reboot swapon swapoff "
    "acct settimeofday clock_settime adjtimex clock_adjtime sethostname setdomainname quotactl "
    "quotactl_fd syslog vhangup iopl ioperm modify_ldt move_pages migrate_pages "
    "shmget semget msgget mq_open"
).split()
