"""What a disk may hold after a power cut, from the trace that disk_shim.c has recorded.

The model of the disk is POSIX's, made a little kinder by what every journalling file system does:

- Data are on the disk for certain once an fsync or fdatasync of the file has ended that began after the write. Until then
  each write may be there, be missing, or be there in part (up to a byte, or any 512-byte sectors of it), and the file may
  already have its new length with zeros in it.
- A name (created, renamed, removed) is on the disk for certain once an fsync of its directory has ended that began after
  the change. Until then the disk may hold the old or the new name.
- Changes of names reach the disk in their order, and an fsync of a file makes its creation certain too, with the
  directories above it (`own_name`). Journals work like this; POSIX does not demand it, and `--posix` omits it.
- After a sync that failed, the writes before it are never certain, whatever later syncs of the file report.
- sync_file_range promises nothing.
"""

from __future__ import annotations

import os
import random
import shutil
import struct
from pathlib import Path
from typing import NamedTuple

RECORD = struct.Struct("<IIQQQIHH")
MAGIC = 0x44534B31
OPENED, WRITTEN, SYNC_BEGINS, SYNC_ENDS, RENAMED, UNLINKED, MADE, REMOVED, TRUNCATED, ALLOCATED, MAPPED, LINKED, SYNC_FAILED = range(1, 14)
ACKNOWLEDGED = 100
NAMES = {
    OPENED: "create", WRITTEN: "write", SYNC_BEGINS: "sync begins", SYNC_ENDS: "sync", RENAMED: "rename", UNLINKED: "unlink",
    MADE: "mkdir", REMOVED: "rmdir", TRUNCATED: "truncate", ALLOCATED: "allocate", LINKED: "link", SYNC_FAILED: "failed sync", ACKNOWLEDGED: "acknowledge",
}  # fmt: skip
GROUPS = {WRITTEN: "contents", TRUNCATED: "contents", ALLOCATED: "contents", SYNC_BEGINS: "syncs", SYNC_ENDS: "syncs", SYNC_FAILED: "syncs", ACKNOWLEDGED: "clients"}
KEEP_SIZE = 1
EXCHANGE = 2
SECTOR_BYTES = 512
# What happens to data and names that are not synced.
VARIANTS = ("nothing", "everything", "names only", "data only", "torn at a sector", "torn at a byte", "sectors", "zeros")


class Event(NamedTuple):
    """A record of the trace."""

    kind: int
    inode: int
    offset: int
    length: int
    flags: int
    path: str
    other: str
    data: bytes


def acknowledgement(name: str, total: int) -> bytes:
    """A record that a client's first `total` units are acknowledged. It is appended to the same file as the shim's."""
    path = name.encode()
    return RECORD.pack(MAGIC, ACKNOWLEDGED, 0, total, 0, 0, len(path), 0) + path


def read_trace(path: Path) -> list[Event]:
    """All records of a trace. A process that was killed may leave a part of a record at the end."""
    data, at, events = path.read_bytes(), 0, []
    while at + RECORD.size <= len(data):
        magic, kind, inode, offset, length, flags, path_bytes, other_bytes = RECORD.unpack_from(data, at)
        if magic != MAGIC:
            raise ValueError(f"{path}: no record at {at}")
        start = at + RECORD.size
        body = start + path_bytes + other_bytes
        end = body + (length if kind == WRITTEN else 0)
        if end > len(data):
            break
        first, second = data[start : start + path_bytes].decode(), data[start + path_bytes : body].decode()
        if kind == MAPPED and flags == 0:
            raise ValueError(f"{first} is changed through a mapping, which the shim cannot record")
        events.append(Event(kind, inode, offset, length, flags, first, second, data[body:end]))
        at = end
    return events


class File:
    """A file: what is certain, and the changes since, each with the number of its event."""

    def __init__(self, inode, content=b""):
        self.inode = inode
        self.certain = bytearray(content)
        self.pending = []  # (number, "write", offset, data) or (number, "size", length)
        self.doubtful = 0  # The changes up to this event can no longer become certain.

    def give_up(self):
        """A sync has failed: the system has dropped the changes before it."""
        self.doubtful = self.pending[-1][0] if self.pending else self.doubtful

    def sync(self, begin):
        """A sync that began at this event has ended."""
        kept = []
        for change in self.pending:
            if self.doubtful < change[0] < begin:
                apply_change(self.certain, change)
            else:
                kept.append(change)
        self.pending = kept


def apply_change(content: bytearray, change):
    """Applies one change of a file's content."""
    if change[1] == "size":
        length = change[2]
        if length < len(content):
            del content[length:]
        else:
            content.extend(bytes(length - len(content)))
        return
    _, _, offset, data = change
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


class Directory:
    """A directory: its names for certain, and its names now."""

    def __init__(self, inode):
        self.inode = inode
        self.certain = {}
        self.names = {}


class Disk:
    """The disk below one directory, which plays a trace."""

    def __init__(self, root: Path, own_name=True):
        self.root = os.path.realpath(root)
        self.own_name = own_name
        self.tree = Directory(0)
        self.by_inode = {}
        self.pending = []  # (number, [(directory, name, object or None)])
        self.begun = {}
        self.number = 0
        self.acknowledged = {}
        self._scan(self.root, self.tree)

    def _scan(self, path, directory):
        """The files that exist before the trace begins are certain."""
        if not os.path.isdir(path):
            return
        directory.inode = os.stat(path).st_ino
        self.by_inode[directory.inode] = directory
        for entry in sorted(os.scandir(path), key=lambda each: each.name):
            if entry.is_dir():
                found = Directory(entry.inode())
                self._scan(entry.path, found)
            elif entry.is_file():
                found = File(entry.inode(), Path(entry.path).read_bytes())
            else:
                continue
            self.by_inode[found.inode] = found
            directory.certain[entry.name] = directory.names[entry.name] = found

    def play(self, event: Event):
        """One event."""
        self.number += 1
        match event.kind:
            case k if k == ACKNOWLEDGED:
                self.acknowledged[event.path] = max(event.offset, self.acknowledged.get(event.path, 0))
            case k if k == OPENED:
                self._opened(event)
            case k if k == WRITTEN:
                file = self._file(event.inode)
                file.pending.append((self.number, "write", event.offset, event.data))
                if event.flags & (os.O_SYNC | os.O_DSYNC):
                    file.sync(self.number + 1)
            case k if k == TRUNCATED:
                self._file(event.inode).pending.append((self.number, "size", event.offset))
            case k if k == ALLOCATED:
                if not event.flags & KEEP_SIZE:
                    file = self._file(event.inode)
                    length = max(self._length(file), event.offset + event.length)
                    file.pending.append((self.number, "size", length))
            case k if k == SYNC_BEGINS:
                self.begun[event.inode, event.offset] = self.number
            case k if k == SYNC_ENDS:
                self._synced(event)
            case k if k == SYNC_FAILED:
                if isinstance(file := self.by_inode.get(event.inode), File):
                    file.give_up()
            case k if k == MADE:
                self._made(event)
            case k if k in (UNLINKED, REMOVED):
                directory, name = self._parent(event.path)
                self._name([(directory, name, None)])
            case k if k == RENAMED:
                self._renamed(event)
            case k if k == LINKED:
                directory, name = self._parent(event.path)
                self._name([(directory, name, self.by_inode[event.inode])])

    def _relative(self, path):
        path = os.path.normpath(path)
        if path == self.root:
            return []
        if not path.startswith(self.root + "/"):
            raise ValueError(f"{path} is not below {self.root}")
        return path[len(self.root) + 1 :].split("/")

    def _parent(self, path):
        *above, name = self._relative(path)
        directory = self.tree
        for each in above:
            directory = directory.names[each]
        return directory, name

    def _file(self, inode) -> File:
        return self.by_inode[inode]

    @staticmethod
    def _length(file):
        content = bytearray(file.certain)
        for change in file.pending:
            apply_change(content, change)
        return len(content)

    def _name(self, changes):
        for directory, name, target in changes:
            if target is None:
                directory.names.pop(name, None)
            else:
                directory.names[name] = target
        self.pending.append((self.number, changes))

    def _opened(self, event):
        parts = self._relative(event.path)
        if not parts:
            self.by_inode[event.inode] = self.tree
            return
        directory, name = self._parent(event.path)
        found = directory.names.get(name)
        if found is None:
            # A directory is only opened after it was made, so this is a file.
            found = self.by_inode[event.inode] = File(event.inode)
            self._name([(directory, name, found)])
        elif isinstance(found, File) and event.flags & os.O_TRUNC:
            found.pending.append((self.number, "size", 0))
        self.by_inode[event.inode] = found

    def _made(self, event):
        parts = self._relative(event.path)
        if not parts:
            self.by_inode[event.inode] = self.tree
            return
        directory, name = self._parent(event.path)
        found = self.by_inode[event.inode] = Directory(event.inode)
        self._name([(directory, name, found)])

    def _renamed(self, event):
        directory, name = self._parent(event.path)
        to, new_name = self._parent(event.other)
        moved = directory.names[name]
        replaced = to.names.get(new_name) if event.flags & EXCHANGE else None
        self._name([(directory, name, replaced), (to, new_name, moved)])

    def _synced(self, event):
        begin = self.begun.pop((event.inode, event.offset), self.number)
        target = self.by_inode.get(event.inode)
        if isinstance(target, Directory):
            self._names_certain(lambda changes: any(directory is target for directory, _, _ in changes), begin)
        elif target is not None:
            target.sync(begin)
            if self.own_name:
                self._own_name_certain(target, begin)

    def _own_name_certain(self, target, begin):
        """Creation of the file, and of the directories above it."""
        wanted = {id(target)}
        changed = True
        while changed:
            changed = False
            for number, changes in self.pending:
                is_creation = len(changes) == 1 and changes[0][2] is not None
                if number < begin and is_creation and id(changes[0][2]) in wanted and id(changes[0][0]) not in wanted:
                    wanted.add(id(changes[0][0]))
                    changed = True
        self._names_certain(lambda changes: len(changes) == 1 and changes[0][2] is not None and id(changes[0][2]) in wanted, begin)

    def _names_certain(self, chosen, begin):
        numbers = [number for number, changes in self.pending if number < begin and chosen(changes)]
        last, kept = max(numbers, default=0), []
        for number, changes in self.pending:
            # A journal keeps the order of all changes; POSIX only promises the names of the directory that was synced.
            if number <= last if self.own_name else number in numbers:
                for directory, name, found in changes:
                    set_name(directory.certain, name, found)
            else:
                kept.append((number, changes))
        self.pending = kept

    def is_uncertain(self) -> bool:
        """Whether a power cut now could lose something."""
        return bool(self.pending) or any(isinstance(file, File) and file.pending for file in self.by_inode.values())

    def newest(self, suffix):
        """The inode of the file with the highest name that ends like this, or None."""
        found = {}

        def visit(directory):
            for name, each in directory.names.items():
                if isinstance(each, Directory):
                    visit(each)
                elif name.endswith(suffix):
                    found[name] = each.inode

        visit(self.tree)
        return found[max(found)] if found else None

    def write_to(self, target: Path, variant: str, rng: random.Random):
        """Writes what the disk may hold if the power is cut now."""
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        names = self._names_after(variant, rng)
        contents = self._contents_after(variant, rng)
        self._write(self.tree, target, names, contents)

    def _names_after(self, variant, rng):
        """The names of each directory, by its identity, with the first of the uncertain changes."""
        if variant in ("nothing", "data only"):
            count = 0
        elif variant in ("everything", "names only"):
            count = len(self.pending)
        else:
            count = rng.randint(0, len(self.pending))
        found = {}
        for _, changes in self.pending[:count]:
            for directory, name, each in changes:
                set_name(found.setdefault(id(directory), dict(directory.certain)), name, each)
        return found

    def _contents_after(self, variant, rng):
        """The content of each file that has uncertain changes, by its identity."""
        files = {id(file): file for file in self.by_inode.values() if isinstance(file, File) and file.pending}
        # Files whose inode was used again are reachable by name only.
        self._collect(self.tree, files)
        changes = sorted((change[0], key) for key, file in files.items() for change in file.pending)
        last = rng.choice(changes)[0] if changes else 0
        found = {}
        for key, file in files.items():
            content, reached = bytearray(file.certain), {}
            for order, change in enumerate(file.pending):
                is_write = change[1] == "write"
                if variant in ("nothing", "names only"):
                    continue
                if variant in ("everything", "data only"):
                    apply_change(content, change)
                elif variant == "zeros":
                    end = change[2] + len(change[3]) if is_write else change[2]
                    if end > len(content):
                        content.extend(bytes(end - len(content)))
                elif variant == "sectors":
                    apply_change(content, change) if not is_write else write_sectors(content, change, order, reached, len(file.pending), rng)
                elif change[0] < last:
                    apply_change(content, change)
                elif change[0] == last and is_write:
                    step = SECTOR_BYTES if variant == "torn at a sector" else 1
                    end = (change[2] + rng.randint(0, len(change[3]))) // step * step
                    apply_change(content, (*change[:3], change[3][: max(0, end - change[2])]))
            found[key] = content
        return found

    def _collect(self, directory, files):
        for each in [*directory.names.values(), *directory.certain.values()]:
            if isinstance(each, Directory):
                self._collect(each, files)
            elif each.pending:
                files[id(each)] = each

    def _write(self, directory, path, names, contents):
        for name, found in names.get(id(directory), directory.certain).items():
            if isinstance(found, Directory):
                (path / name).mkdir()
                self._write(found, path / name, names, contents)
            else:
                (path / name).write_bytes(contents.get(id(found), found.certain))


def set_name(names, name, found):
    """Sets or removes a name."""
    if found is None:
        names.pop(name, None)
    else:
        names[name] = found


def write_sectors(content: bytearray, change, order, reached, count, rng):
    """Writes the sectors that a write covers, if the disk got to them after it. The others stay, or are zeros where the file
    was shorter. A sector that the disk has written after one write has all writes before it, too; half of them have all."""
    number, kind, offset, data = change
    at = offset
    while at < offset + len(data):
        sector = at // SECTOR_BYTES
        end = min((sector + 1) * SECTOR_BYTES, offset + len(data))
        if sector not in reached:
            reached[sector] = count if rng.random() < 0.5 else rng.randint(0, count)
        if order < reached[sector]:
            apply_change(content, (number, kind, at, data[at - offset : end - offset]))
        at = end


def choose(events, count, rng) -> list[int]:
    """The numbers of the events after which the power is cut: equal shares of changes of names, of contents, of syncs and of
    acknowledgements, as far as there are that many."""
    groups = {}
    for number, event in enumerate(events):
        changes_nothing = event.kind == OPENED and not event.offset and not event.flags & os.O_TRUNC
        if not changes_nothing:
            groups.setdefault(GROUPS.get(event.kind, "names"), []).append(number)
    chosen = []
    for left, group in zip(range(len(groups), 0, -1), sorted(groups.values(), key=len)):
        chosen += rng.sample(group, min(len(group), (count - len(chosen)) // left))
    return sorted(chosen)
