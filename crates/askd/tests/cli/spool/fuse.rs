//! A file system as a shared mount is one: it is another one's, and what others write in it is told to nobody. It shows a
//! directory that is elsewhere, and the requesters of a test work there, behind its back.

use std::collections::HashMap;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::io::{Errno, FdFlags, fcntl_setfd};

/// Longest request of the kernel: one write and its header.
const LONGEST: usize = 1024 * 1024 + 4096;
const HEADER: usize = 40;
const ROOT: u64 = 1;

/// The mount; it is gone when this is dropped.
pub(super) struct Mount {
    at: PathBuf,
    /// What the kernel has asked for so far.
    requests: Arc<AtomicU64>,
    is_full: Arc<AtomicBool>,
}

impl Mount {
    /// Shows `behind` at `at`. `None`: this user may mount nothing here.
    pub(super) fn new(at: &Path, behind: &Path) -> Option<Self> {
        for dir in [at, behind] {
            fs::create_dir_all(dir).unwrap();
        }
        let device = OpenOptions::new().read(true).write(true).open("/dev/fuse").ok()?;
        // For the command only.
        fcntl_setfd(&device, FdFlags::empty()).unwrap();
        let user = rustix::process::geteuid().as_raw();
        let group = rustix::process::getegid().as_raw();
        let options = format!("fd={},rootmode=40000,user_id={user},group_id={group}", device.as_raw_fd());
        let mut mount = Command::new("mount");
        mount.args(["-i", "-t", "fuse", "-o", &options, "shared"]).arg(at);
        if !mount.output().ok()?.status.success() {
            return None;
        }
        fcntl_setfd(&device, FdFlags::CLOEXEC).unwrap();
        let requests = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&requests);
        let is_full = Arc::new(AtomicBool::new(false));
        let nodes = HashMap::from([(ROOT, behind.to_path_buf())]);
        let shown = Shown {
            is_full: Arc::clone(&is_full),
            nodes,
            files: HashMap::new(),
            lists: HashMap::new(),
            next: 0,
        };
        std::thread::spawn(move || serve(device, shown, &counted));
        Some(Self { at: at.to_path_buf(), requests, is_full })
    }

    /// Whether nothing more can be written into its files.
    pub(super) fn fill(&self, is_full: bool) {
        self.is_full.store(is_full, Ordering::SeqCst);
    }

    pub(super) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.at).output();
    }
}

fn serve(mut device: File, mut shown: Shown, counted: &AtomicU64) {
    let mut buffer = vec![0; LONGEST];
    // It ends with the mount.
    while let Ok(length) = device.read(&mut buffer) {
        counted.fetch_add(1, Ordering::Relaxed);
        let request = In(&buffer[..length]);
        let (operation, unique) = (request.u32(4), request.u64(8));
        let Some(reply) = shown.answer(operation, request.u64(16), In(&request.0[HEADER..])) else {
            continue;
        };
        let (error, body) = match reply {
            Ok(body) => (0, body.0),
            Err(errno) => (-errno.raw_os_error(), Vec::new()),
        };
        let length = u32::try_from(16 + body.len()).unwrap();
        let header = [&length.to_ne_bytes()[..], &error.to_ne_bytes(), &unique.to_ne_bytes(), &body].concat();
        // The kernel may have given it up.
        let _ = device.write(&header);
    }
}

/// What the kernel sent.
#[derive(Clone, Copy)]
struct In<'a>(&'a [u8]);

impl<'a> In<'a> {
    fn u32(self, at: usize) -> u32 {
        u32::from_ne_bytes(self.0[at..at + 4].try_into().unwrap())
    }

    fn u64(self, at: usize) -> u64 {
        u64::from_ne_bytes(self.0[at..at + 8].try_into().unwrap())
    }

    /// The names from here on, each of which ends with a zero.
    fn name(self, at: usize, n: usize) -> &'a Path {
        let name = self.0[at..].split(|byte| *byte == 0).nth(n).unwrap();
        Path::new(std::ffi::OsStr::from_bytes(name))
    }
}

/// What it is told.
#[derive(Default)]
struct Out(Vec<u8>);

impl Out {
    fn u16(mut self, values: &[u16]) -> Self {
        values.iter().for_each(|value| self.0.extend(value.to_ne_bytes()));
        self
    }

    fn u32(mut self, values: &[u32]) -> Self {
        values.iter().for_each(|value| self.0.extend(value.to_ne_bytes()));
        self
    }

    fn u64(mut self, values: &[u64]) -> Self {
        values.iter().for_each(|value| self.0.extend(value.to_ne_bytes()));
        self
    }

    fn attributes(self, of: &Metadata) -> Self {
        let (time, nanos) =
            ([of.atime(), of.mtime(), of.ctime()], [of.atime_nsec(), of.mtime_nsec(), of.ctime_nsec()]);
        self.u64(&[of.ino(), of.size(), of.blocks()])
            .u64(&time.map(|time| u64::try_from(time).unwrap()))
            .u32(&nanos.map(|nanos| u32::try_from(nanos).unwrap()))
            .u32(&[of.mode(), u32::try_from(of.nlink()).unwrap(), of.uid(), of.gid(), 0, 4096, 0])
    }

    /// Nothing of it is to be remembered: it may be another one at any moment.
    fn entry(self, of: &Metadata) -> Self {
        self.u64(&[of.ino(), 0, 0, 0]).u32(&[0, 0]).attributes(of)
    }
}

/// What lies behind, by the numbers of its files.
struct Shown {
    is_full: Arc<AtomicBool>,
    nodes: HashMap<u64, PathBuf>,
    files: HashMap<u64, File>,
    lists: HashMap<u64, Vec<(u64, u32, Vec<u8>)>>,
    next: u64,
}

impl Shown {
    /// `None`: nothing is to be said.
    fn answer(&mut self, operation: u32, node: u64, request: In<'_>) -> Option<Result<Out, Errno>> {
        let done = match operation {
            2 | 36 | 38 | 42 => return None,
            26 => Ok(Out::default().u32(&[7, 31, 0, 0]).u16(&[12, 9]).u32(&[1024 * 1024, 1]).u16(&[0; 16])),
            17 => Ok(Out::default()
                .u64(&[1 << 20, 1 << 20, 1 << 20, 1 << 20, 1 << 20])
                .u32(&[4096, 255, 4096])
                .u32(&[0; 7])),
            18 => {
                self.files.remove(&request.u64(0));
                Ok(Out::default())
            }
            29 => {
                self.lists.remove(&request.u64(0));
                Ok(Out::default())
            }
            20 | 25 | 34 => Ok(Out::default()),
            _ => self
                .work(operation, node, request)
                .map_err(|error| error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error)),
        };
        Some(done)
    }

    fn work(&mut self, operation: u32, node: u64, request: In<'_>) -> io::Result<Out> {
        let path = self.path(node)?;
        match operation {
            1 => self.entry(&path.join(request.name(0, 0))),
            3 | 4 => Ok(Out::default().u64(&[0]).u32(&[0, 0]).attributes(&path.symlink_metadata()?)),
            9 => {
                let new = path.join(request.name(8, 0));
                fs::DirBuilder::new().mode(request.u32(0) & 0o777).create(&new)?;
                self.entry(&new)
            }
            10 => fs::remove_file(path.join(request.name(0, 0))).map(|()| Out::default()),
            11 => fs::remove_dir(path.join(request.name(0, 0))).map(|()| Out::default()),
            12 => {
                let new = self.path(request.u64(0))?.join(request.name(8, 1));
                fs::rename(path.join(request.name(8, 0)), &new)?;
                self.entry(&new).map(|_| Out::default())
            }
            13 => {
                let new = path.join(request.name(8, 0));
                fs::hard_link(self.path(request.u64(0))?, &new)?;
                self.entry(&new)
            }
            14 => {
                let write = request.u32(0) & 0b11 != 0;
                let file = OpenOptions::new().read(true).write(write).open(path)?;
                Ok(self.opened(Out::default(), file))
            }
            35 => {
                let new = path.join(request.name(16, 0));
                let mut options = OpenOptions::new();
                options.read(true).write(true).mode(request.u32(4) & 0o777);
                let exclusive = request.u32(0) & rustix::fs::OFlags::EXCL.bits() != 0;
                let file = options.create(!exclusive).create_new(exclusive).open(&new)?;
                let entry = self.entry(&new)?;
                Ok(self.opened(entry, file))
            }
            15 => {
                let mut bytes = vec![0; request.u32(16) as usize];
                let read = self.file(request)?.read_at(&mut bytes, request.u64(8))?;
                bytes.truncate(read);
                Ok(Out(bytes))
            }
            16 if self.is_full.load(Ordering::SeqCst) => Err(Errno::NOSPC.into()),
            16 => {
                let bytes = &request.0[40..40 + request.u32(16) as usize];
                self.file(request)?.write_all_at(bytes, request.u64(8))?;
                Ok(Out::default().u32(&[request.u32(16), 0]))
            }
            27 => {
                let mut list = Vec::new();
                for entry in fs::read_dir(path)? {
                    let entry = entry?;
                    let kind = if entry.file_type()?.is_dir() { 4 } else { 8 };
                    list.push((entry.metadata()?.ino(), kind, entry.file_name().as_bytes().to_vec()));
                }
                self.next += 1;
                self.lists.insert(self.next, list);
                Ok(Out::default().u64(&[self.next]).u32(&[0, 0]))
            }
            28 => {
                let list = self.lists.get(&request.u64(0)).ok_or(Errno::BADF)?;
                let (mut out, from) = (Out::default(), request.u64(8));
                for (n, (inode, kind, name)) in (1..).zip(list).skip(usize::try_from(from).unwrap()) {
                    let length = name.len().next_multiple_of(8);
                    if out.0.len() + 24 + length > request.u32(16) as usize {
                        break;
                    }
                    out = out.u64(&[*inode, n]).u32(&[u32::try_from(name.len()).unwrap(), *kind]);
                    out.0.extend(name);
                    out.0.resize(out.0.len().next_multiple_of(8), 0);
                }
                Ok(out)
            }
            // Nothing else is there, as on many a shared file system: no renaming that replaces nothing, no watching.
            _ => Err(Errno::NOSYS.into()),
        }
    }

    fn path(&self, node: u64) -> io::Result<PathBuf> {
        self.nodes.get(&node).cloned().ok_or(Errno::STALE.into())
    }

    fn entry(&mut self, path: &Path) -> io::Result<Out> {
        let meta = path.symlink_metadata()?;
        self.nodes.insert(meta.ino(), path.to_path_buf());
        Ok(Out::default().entry(&meta))
    }

    fn opened(&mut self, out: Out, file: File) -> Out {
        self.next += 1;
        self.files.insert(self.next, file);
        // Past the kernel's memory of it.
        out.u64(&[self.next]).u32(&[1, 0])
    }

    fn file(&self, request: In<'_>) -> io::Result<&File> {
        self.files.get(&request.u64(0)).ok_or(Errno::BADF.into())
    }
}
