//! Reads and writes descriptors with as few calls of the system as there can be: each costs a program that is over in half
//! a millisecond something.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::buffer::spare_capacity;
use rustix::io::Errno;

/// Room that is made at first for what does not say how much it is: most events, and what `/proc` tells, is shorter.
const FIRST: usize = 2048;

/// Reads until the end, or until there are `most` bytes.
pub(crate) fn read_to_end(from: BorrowedFd<'_>, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(FIRST);
    while bytes.len() < most && read(from, &mut bytes)? > 0 {}
    bytes.truncate(most);
    Ok(bytes)
}

/// Reads a file that gives all there is at once, as those of `/proc` do: a read that leaves room was the last one.
pub(crate) fn read_at_once(from: BorrowedFd<'_>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(FIRST);
    loop {
        let read = read(from, &mut bytes)?;
        if read == 0 || bytes.len() < bytes.capacity() {
            return Ok(bytes);
        }
    }
}

/// Appends what one read gives; 0: the end.
fn read(from: BorrowedFd<'_>, bytes: &mut Vec<u8>) -> io::Result<usize> {
    if bytes.len() == bytes.capacity() {
        bytes.reserve(bytes.len());
    }
    loop {
        match rustix::io::read(from, spare_capacity(bytes)) {
            Err(Errno::INTR) => {}
            done => return Ok(done?),
        }
    }
}

/// Writes all of it.
pub(crate) fn write_all(to: BorrowedFd<'_>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(to, bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::thread;

    use super::*;

    #[test]
    fn everything_comes_through_a_pipe_whatever_its_length_and_not_more_than_is_wanted() {
        for length in [0, 1, FIRST - 1, FIRST, FIRST + 1, 300_000] {
            let sent: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
            for most in [usize::MAX, length + 1, length, length / 2] {
                let (reader, writer) = io::pipe().unwrap();
                let sent = sent.clone();
                let expected = sent[..most.min(length)].to_vec();
                let sending = thread::spawn(move || {
                    // The other end may have had enough.
                    let _ = write_all(writer.as_fd(), &sent);
                });
                assert!(read_to_end(reader.as_fd(), most).unwrap() == expected, "{length} {most}");
                drop(reader);
                sending.join().unwrap();
            }
        }
    }

    #[test]
    fn a_file_is_read_whole_at_once() {
        for length in [0, 1, FIRST - 1, FIRST, FIRST + 1, 3 * FIRST] {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(&vec![b'x'; length]).unwrap();
            let file = File::open(file.path()).unwrap();
            assert_eq!(read_at_once(file.as_fd()).unwrap().len(), length);
        }
    }
}
