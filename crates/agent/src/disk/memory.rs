//! A disk in memory that can be killed at each operation, filled, made to fail, and crashed: what was not made durable is
//! then lost, or not. For tests, and for the simulated nodes of the sandbox.
//!
//! More pessimistic than file systems are: a new name is durable only once its folder was synced, and of a rename
//! either half may survive alone.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::real::too_large;
use super::{Disk, Entry, EntryKind};

/// A disk in memory. A clone is the same disk.
#[derive(Debug, Clone, Default)]
pub struct MemoryDisk {
    inner: Arc<Mutex<Inner>>,
}

/// How operations go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The process is dead: nothing is done any more. A write that it dies at is done in half.
    Killed,
    /// Nothing can be written or made: ENOSPC. Removing and renaming works.
    Full,
    /// Nothing can be changed: EROFS.
    ReadOnly,
    /// Nothing becomes durable: EIO.
    SyncFails,
    /// Half of the content is written, and ENOSPC.
    ShortWrite,
    /// A rename says that it was done and was not.
    RenameLost,
    /// A rename fails: EIO.
    RenameFails,
}

/// Names an inode.
type Id = usize;

#[derive(Debug, Default)]
struct Inner {
    /// By number; the root is number 0. What nothing names any more is dropped in a crash.
    inodes: BTreeMap<Id, Inode>,
    next: Id,
    operations: u64,
    faults: Vec<(Fault, Range<u64>)>,
}

#[derive(Debug, Clone)]
enum Inode {
    File {
        content: Arc<[u8]>,
        durable: Arc<[u8]>,
        mode: u32,
    },
    Folder {
        entries: BTreeMap<String, Id>,
        durable: BTreeMap<String, Id>,
        mode: u32,
    },
    /// A link that leads nowhere.
    Link,
}

/// What an operation does, as far as faults care.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Look,
    Write,
    Sync,
    Rename,
    Remove,
    Make,
}

impl MemoryDisk {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts a file there, durably, as whoever set the node up did. Counts for nothing and never fails: what stands in the way
    /// is replaced.
    pub fn put(&self, path: &Path, content: &[u8], mode: u32) {
        let content: Arc<[u8]> = content.into();
        self.put_inode(path, Inode::File { durable: Arc::clone(&content), content, mode });
    }

    /// Puts a symbolic link there, which leads nowhere.
    pub fn put_link(&self, path: &Path) {
        self.put_inode(path, Inode::Link);
    }

    /// What a file holds now, whatever faults there are. `None`: there is no such file.
    #[must_use]
    pub fn content(&self, path: &Path) -> Option<Arc<[u8]>> {
        let inner = self.lock();
        match inner.at(path).ok().flatten().and_then(|id| inner.inodes.get(&id)) {
            Some(Inode::File { content, .. }) => Some(Arc::clone(content)),
            _ => None,
        }
    }

    /// Every file with its content, by path, whatever faults there are.
    #[must_use]
    pub fn files(&self) -> BTreeMap<String, Arc<[u8]>> {
        let inner = self.lock();
        let mut found = BTreeMap::new();
        let mut open = vec![(String::new(), 0)];
        while let Some((path, id)) = open.pop() {
            match inner.inodes.get(&id) {
                Some(Inode::Folder { entries, .. }) => {
                    open.extend(entries.iter().map(|(name, id)| (format!("{path}/{name}"), *id)));
                }
                Some(Inode::File { content, .. }) => drop(found.insert(path, Arc::clone(content))),
                Some(Inode::Link) | None => {}
            }
        }
        found
    }

    /// How many operations there have been that change something or make it durable, those that failed among them. Reading
    /// is not counted.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.lock().operations
    }

    /// From the operation of this number on (the first is number 0), every one fails.
    pub fn kill_at(&self, operation: u64) {
        self.inject(Fault::Killed, operation..u64::MAX);
    }

    /// Operations of these numbers go wrong like this, as far as they are of the kind that it concerns.
    pub fn inject(&self, fault: Fault, operations: Range<u64>) {
        self.lock().faults.push((fault, operations));
    }

    /// From now on all is well. What was not durable is still there: it was the process that ended, not the machine.
    pub fn heal(&self) {
        self.lock().faults.clear();
    }

    /// The machine loses power and comes back, all well: what was not durable is lost, in part, or not. The same seed loses the
    /// same.
    pub fn crash(&self, seed: u64) {
        let mut inner = self.lock();
        inner.faults.clear();
        let mut random = fastrand::Rng::with_seed(seed);
        for inode in inner.inodes.values_mut() {
            match inode {
                Inode::File { content, durable, .. } => {
                    if content != durable {
                        let kept = match random.u8(..4) {
                            0 => Arc::clone(durable),
                            1 => Arc::clone(content),
                            2 => Arc::from([]),
                            _ => content.get(..random.usize(..=content.len())).unwrap_or_default().into(),
                        };
                        (*content, *durable) = (Arc::clone(&kept), kept);
                    }
                }
                Inode::Folder { entries, durable, .. } => {
                    let mut kept = BTreeMap::new();
                    for name in entries.keys().chain(durable.keys()) {
                        let (now, then) = (entries.get(name), durable.get(name));
                        if kept.contains_key(name) {
                            continue;
                        }
                        let survivor = if now == then || random.bool() { now } else { then };
                        if let Some(id) = survivor {
                            kept.insert(name.clone(), *id);
                        }
                    }
                    (*entries, *durable) = (kept.clone(), kept);
                }
                Inode::Link => {}
            }
        }
        inner.forget_unnamed();
    }

    fn put_inode(&self, path: &Path, inode: Inode) {
        let mut inner = self.lock();
        let mut parent = inner.root();
        let names = names(path);
        let Some((last, above)) = names.split_last() else { return };
        for name in above {
            parent = match inner.child(parent, name) {
                Some(id) if matches!(inner.inodes.get(&id), Some(Inode::Folder { .. })) => id,
                _ => inner.add_durably(parent, name, Inode::folder(0o755)),
            };
        }
        inner.add_durably(parent, last, inode);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an operation and says what goes wrong with it.
    fn begin(&self, kind: Kind) -> io::Result<(MutexGuard<'_, Inner>, Option<Fault>)> {
        let mut inner = self.lock();
        inner.root();
        let number = inner.operations;
        if kind != Kind::Look {
            inner.operations += 1;
        }
        let strikes = |(fault, range): &(Fault, Range<u64>)| {
            let concerned = match fault {
                Fault::Killed => true,
                Fault::Full => matches!(kind, Kind::Write | Kind::Make),
                Fault::ReadOnly => !matches!(kind, Kind::Look | Kind::Sync),
                Fault::SyncFails => kind == Kind::Sync,
                Fault::ShortWrite => kind == Kind::Write,
                Fault::RenameLost | Fault::RenameFails => kind == Kind::Rename,
            };
            // Who reads dies only of what came before.
            let struck = range.contains(&number) && (kind != Kind::Look || range.start < number);
            (concerned && struck).then_some((*fault, range.start == number))
        };
        match inner.faults.iter().find_map(strikes) {
            Some((Fault::Killed, true)) if kind == Kind::Write => Ok((inner, Some(Fault::Killed))),
            Some((Fault::Killed, _)) => Err(killed()),
            Some((Fault::Full, _)) => Err(full()),
            Some((Fault::ReadOnly, _)) => Err(io::Error::from(io::ErrorKind::ReadOnlyFilesystem)),
            Some((Fault::SyncFails | Fault::RenameFails, _)) => Err(io::Error::other("input/output error")),
            Some((fault @ (Fault::ShortWrite | Fault::RenameLost), _)) => Ok((inner, Some(fault))),
            None => Ok((inner, None)),
        }
    }
}

fn killed() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the process was killed")
}

fn full() -> io::Error {
    io::Error::from(io::ErrorKind::StorageFull)
}

fn missing() -> io::Error {
    io::Error::from(io::ErrorKind::NotFound)
}

/// The names on the way to a path.
fn names(path: &Path) -> Vec<String> {
    let name = |part: &OsStr| part.to_string_lossy().into_owned();
    path.components()
        .filter_map(|part| match part {
            Component::Normal(part) => Some(name(part)),
            _ => None,
        })
        .collect()
}

impl Inode {
    fn folder(mode: u32) -> Self {
        Self::Folder { entries: BTreeMap::new(), durable: BTreeMap::new(), mode }
    }
}

impl Inner {
    fn root(&mut self) -> Id {
        self.inodes.entry(0).or_insert_with(|| Inode::folder(0o755));
        self.next = self.next.max(1);
        0
    }

    fn child(&self, folder: Id, name: &str) -> Option<Id> {
        match self.inodes.get(&folder)? {
            Inode::Folder { entries, .. } => entries.get(name).copied(),
            _ => None,
        }
    }

    /// What is under a path. A file on the way is an error.
    fn at(&self, path: &Path) -> io::Result<Option<Id>> {
        let mut id = 0;
        for name in names(path) {
            match self.inodes.get(&id) {
                Some(Inode::Folder { entries, .. }) => match entries.get(&name) {
                    Some(next) => id = *next,
                    None => return Ok(None),
                },
                Some(_) => return Err(io::Error::from(io::ErrorKind::NotADirectory)),
                None => return Ok(None),
            }
        }
        Ok(Some(id))
    }

    /// The folder that a path is in, and its name there.
    fn place(&self, path: &Path) -> io::Result<(Id, String)> {
        let mut names = names(path);
        let Some(last) = names.pop() else { return Err(io::Error::from(io::ErrorKind::InvalidInput)) };
        let above: PathBuf = names.iter().collect();
        let parent = self.at(&above)?.ok_or_else(missing)?;
        match self.inodes.get(&parent) {
            Some(Inode::Folder { .. }) => Ok((parent, last)),
            _ => Err(io::Error::from(io::ErrorKind::NotADirectory)),
        }
    }

    fn entries(&mut self, folder: Id) -> Option<&mut BTreeMap<String, Id>> {
        match self.inodes.get_mut(&folder)? {
            Inode::Folder { entries, .. } => Some(entries),
            _ => None,
        }
    }

    fn add(&mut self, folder: Id, name: &str, inode: Inode) -> Id {
        let id = self.next;
        self.next += 1;
        self.inodes.insert(id, inode);
        if let Some(entries) = self.entries(folder) {
            entries.insert(name.to_owned(), id);
        }
        id
    }

    fn add_durably(&mut self, folder: Id, name: &str, inode: Inode) -> Id {
        let id = self.add(folder, name, inode);
        if let Some(Inode::Folder { durable, .. }) = self.inodes.get_mut(&folder) {
            durable.insert(name.to_owned(), id);
        }
        id
    }

    fn is_folder(&self, id: Id) -> bool {
        matches!(self.inodes.get(&id), Some(Inode::Folder { .. }))
    }

    /// Takes a name away. What it named is kept until the folder is synced: a crash may bring it back.
    fn unlink(&mut self, folder: Id, name: &str) {
        if let Some(entries) = self.entries(folder) {
            entries.remove(name);
        }
    }

    fn forget_unnamed(&mut self) {
        let mut named = BTreeSet::new();
        let mut open = vec![0];
        while let Some(id) = open.pop() {
            if let (true, Some(Inode::Folder { entries, durable, .. })) = (named.insert(id), self.inodes.get(&id)) {
                open.extend(entries.values().chain(durable.values()));
            }
        }
        self.inodes.retain(|id, _| named.contains(id));
    }
}

impl Disk for MemoryDisk {
    fn read(&self, path: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
        let (inner, _) = self.begin(Kind::Look)?;
        let Some(id) = inner.at(path)? else { return Ok(None) };
        match inner.inodes.get(&id) {
            Some(Inode::File { content, .. }) if u64::try_from(content.len()).is_ok_and(|length| length <= limit) => {
                Ok(Some(content.to_vec()))
            }
            Some(Inode::File { .. }) => Err(too_large(limit)),
            Some(Inode::Link) | None => Ok(None),
            Some(Inode::Folder { .. }) => Err(io::Error::other("it is no regular file")),
        }
    }

    fn write(&self, path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
        let (mut inner, fault) = self.begin(Kind::Write)?;
        let (folder, name) = inner.place(path)?;
        let content: Arc<[u8]> = match fault {
            None => content.into(),
            Some(_) => content.get(..content.len() / 2).unwrap_or_default().into(),
        };
        match inner.child(folder, &name) {
            Some(id) => match inner.inodes.get_mut(&id) {
                Some(Inode::File { content: old, mode: old_mode, .. }) => (*old, *old_mode) = (content, mode),
                _ => return Err(io::Error::other("something that is no regular file has its name")),
            },
            None => drop(inner.add(folder, &name, Inode::File { content, durable: Arc::from([]), mode })),
        }
        match fault {
            None => Ok(()),
            Some(Fault::Killed) => Err(killed()),
            Some(_) => Err(full()),
        }
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        let (mut inner, _) = self.begin(Kind::Sync)?;
        let id = inner.at(path)?.ok_or_else(missing)?;
        let mut forgotten = false;
        match inner.inodes.get_mut(&id) {
            Some(Inode::File { content, durable, .. }) => *durable = Arc::clone(content),
            Some(Inode::Folder { entries, durable, .. }) => {
                forgotten = durable != entries;
                durable.clone_from(entries);
            }
            Some(Inode::Link) | None => return Err(missing()),
        }
        if forgotten {
            inner.forget_unnamed();
        }
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (mut inner, fault) = self.begin(Kind::Rename)?;
        let (source, old) = inner.place(from)?;
        let (target, new) = inner.place(to)?;
        let id = inner.child(source, &old).ok_or_else(missing)?;
        let replaced = inner.child(target, &new);
        if replaced == Some(id) || fault.is_some() {
            return Ok(());
        }
        if let Some(replaced) = replaced {
            match (inner.is_folder(id), inner.is_folder(replaced)) {
                (true, true) if inner.entries(replaced).is_some_and(|entries| !entries.is_empty()) => {
                    return Err(io::Error::from(io::ErrorKind::DirectoryNotEmpty));
                }
                (true, false) => return Err(io::Error::from(io::ErrorKind::NotADirectory)),
                (false, true) => return Err(io::Error::from(io::ErrorKind::IsADirectory)),
                _ => inner.unlink(target, &new),
            }
        }
        if let Some(entries) = inner.entries(source) {
            entries.remove(&old);
        }
        if let Some(entries) = inner.entries(target) {
            entries.insert(new, id);
        }
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let (mut inner, _) = self.begin(Kind::Remove)?;
        let Some(id) = inner.at(path)? else { return Ok(()) };
        if inner.is_folder(id) {
            return Err(io::Error::from(io::ErrorKind::IsADirectory));
        }
        let (folder, name) = inner.place(path)?;
        inner.unlink(folder, &name);
        Ok(())
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        let (mut inner, _) = self.begin(Kind::Remove)?;
        let Some(id) = inner.at(path)? else { return Ok(()) };
        match inner.entries(id) {
            None => return Err(io::Error::from(io::ErrorKind::NotADirectory)),
            Some(entries) if !entries.is_empty() => return Err(io::Error::from(io::ErrorKind::DirectoryNotEmpty)),
            Some(_) => {}
        }
        let (folder, name) = inner.place(path)?;
        inner.unlink(folder, &name);
        Ok(())
    }

    fn make_folder(&self, path: &Path, mode: u32) -> io::Result<()> {
        let (mut inner, _) = self.begin(Kind::Make)?;
        let mut folder = 0;
        for name in names(path) {
            folder = match inner.child(folder, &name) {
                Some(id) if inner.is_folder(id) => id,
                Some(_) => return Err(io::Error::from(io::ErrorKind::NotADirectory)),
                None => inner.add(folder, &name, Inode::folder(mode)),
            };
        }
        Ok(())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let (inner, _) = self.begin(Kind::Look)?;
        let Some(id) = inner.at(path)? else { return Ok(Vec::new()) };
        match inner.inodes.get(&id) {
            Some(Inode::Folder { entries, .. }) => Ok(entries.keys().cloned().collect()),
            _ => Err(io::Error::from(io::ErrorKind::NotADirectory)),
        }
    }

    fn look(&self, path: &Path) -> io::Result<Option<Entry>> {
        let (inner, _) = self.begin(Kind::Look)?;
        let id = inner.at(path)?;
        Ok(id.and_then(|id| inner.inodes.get(&id)).map(|inode| match inode {
            Inode::File { mode, .. } => Entry { kind: EntryKind::File, mode: *mode },
            Inode::Folder { mode, .. } => Entry { kind: EntryKind::Folder, mode: *mode },
            Inode::Link => Entry { kind: EntryKind::Other, mode: 0o777 },
        }))
    }
}
