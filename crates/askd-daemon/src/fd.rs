//! Owned descriptors in the runtime.

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Waits for a descriptor to be readable.
#[expect(
    deprecated,
    reason = "the safe constructor cannot check that the descriptor stays the same; an OwnedFd guarantees it, and \
              unsafe code is forbidden here"
)]
pub(crate) fn readable(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(fd, Interest::READABLE)
}
