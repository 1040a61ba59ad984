//! Standard input and output as whoever started us left them: also where reading and writing do not block.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// A file whose reads and writes wait, whatever its flags say. The flags belong to others as much as to us.
#[derive(Debug)]
pub(crate) struct Patient(pub(crate) Arc<File>);

impl Patient {
    fn wait(&self, flags: PollFlags) -> io::Result<()> {
        match poll(&mut [PollFd::from_borrowed_fd(self.0.as_fd(), flags)], None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl Read for Patient {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match (&*self.0).read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait(PollFlags::IN)?,
                done => return done,
            }
        }
    }
}

impl Write for Patient {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match (&*self.0).write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait(PollFlags::OUT)?,
                done => return done,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether the other end of something that is written to is gone. What has no other end, like a file, has not lost it.
pub(crate) fn is_deserted(fd: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::empty())];
    match poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
        Ok(_) => fds[0].revents().intersects(PollFlags::ERR | PollFlags::HUP),
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn what_does_not_block_is_waited_for() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let mut both = Patient(Arc::new(File::from(OwnedFd::from(ours))));
        let much = vec![7; 4 << 20];
        let sent = much.clone();
        let far = std::thread::spawn(move || {
            let mut theirs = theirs;
            let mut got = vec![0; sent.len()];
            theirs.read_exact(&mut got).unwrap();
            assert!(got == sent);
            theirs.write_all(b"done").unwrap();
        });
        both.write_all(&much).unwrap();
        let mut word = [0; 4];
        both.read_exact(&mut word).unwrap();
        far.join().unwrap();
        assert_eq!(&word, b"done");
    }

    #[test]
    fn an_end_that_is_gone_is_seen_and_a_file_has_none() {
        let (read, write) = io::pipe().unwrap();
        assert!(!is_deserted(write.as_fd()));
        drop(read);
        assert!(is_deserted(write.as_fd()));
        let null = File::options().write(true).open("/dev/null").unwrap();
        assert!(!is_deserted(null.as_fd()));
    }
}
