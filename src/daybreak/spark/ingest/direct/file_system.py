"""File systems whose changes inotify sees: those where every change passes this kernel."""

from __future__ import annotations

import ctypes
import os
import sys

#: ``statfs(2)`` numbers of local file systems. On all others (NFS, CIFS, FUSE, 9P, ...) another
#: machine or process may add a file that this kernel is not told of, so their folders are listed.
_LOCAL = {
    0xEF53: "ext4",
    0x58465342: "xfs",
    0x9123683E: "btrfs",
    0x01021994: "tmpfs",
    0x858458F6: "ramfs",
    0x2FC12FC1: "zfs",
    0xF2F52010: "f2fs",
    0xCA451A4E: "bcachefs",
    0x794C7630: "overlayfs",
    0x5346544E: "ntfs3",
    0x2011BAB0: "exfat",
    0x4D44: "vfat",
}
#: Larger than the structure on every Linux.
_STATFS_BYTES = 512


def inotify_sees(folder: str) -> bool:
    """Tells whether the kernel reports every change of a folder that exists."""
    found = ctypes.create_string_buffer(_STATFS_BYTES)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.statfs(os.fsencode(folder), found) < 0:
        return False
    # The first member is a long; all the numbers are of 32 bits.
    number = int.from_bytes(found.raw[: ctypes.sizeof(ctypes.c_long)], sys.byteorder)
    return number & 0xFFFFFFFF in _LOCAL
