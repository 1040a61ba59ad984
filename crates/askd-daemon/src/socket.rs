//! A connection's stream that wakes its task when there is something to read, and for nothing else.
//!
//! The runtime's own stream also wakes whenever a peer has taken what was written to it, which is after every reply and
//! every event, and nobody waits for that. Here room is only waited for by whoever found none.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};

/// A connected stream. The same task reads and writes it: others would not be woken.
#[derive(Debug)]
pub(crate) struct Socket {
    /// `None`: registering it failed.
    fd: Option<AsyncFd<UnixStream>>,
    /// It was full once: from then on its task is woken for room as well.
    waits_for_room: bool,
}

impl Socket {
    /// Within a runtime.
    pub(crate) fn new(stream: tokio::net::UnixStream) -> io::Result<Self> {
        // It stays non-blocking.
        let fd = register(stream.into_std()?, Interest::READABLE)?;
        Ok(Self { fd: Some(fd), waits_for_room: false })
    }

    fn fd(&self) -> io::Result<&AsyncFd<UnixStream>> {
        self.fd.as_ref().ok_or_else(|| ErrorKind::NotConnected.into())
    }

    fn send(
        &mut self,
        context: &mut Context<'_>,
        mut write: impl FnMut(&UnixStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        if !self.waits_for_room {
            match write(self.fd()?.get_ref()) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
            self.waits_for_room = true;
            let stream = self.fd.take().ok_or(ErrorKind::NotConnected)?.into_inner();
            self.fd = Some(register(stream, Interest::READABLE | Interest::WRITABLE)?);
            // Who waited for something to read has to ask again.
            context.waker().wake_by_ref();
        }
        let fd = self.fd()?;
        loop {
            let mut room = ready!(fd.poll_write_ready(context))?;
            match room.try_io(|fd| write(fd.get_ref())) {
                Ok(written) => return Poll::Ready(written),
                Err(_would_block) => {}
            }
        }
    }
}

#[expect(
    deprecated,
    reason = "the safe constructor cannot check that the descriptor stays the same; a UnixStream guarantees it, and \
              unsafe code is forbidden here"
)]
fn register(stream: UnixStream, interest: Interest) -> io::Result<AsyncFd<UnixStream>> {
    AsyncFd::with_interest(stream, interest)
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let fd = self.fd()?;
        let room = buffer.initialize_unfilled();
        loop {
            let mut something = ready!(fd.poll_read_ready(context))?;
            match something.try_io(|fd| fd.get_ref().read(room)) {
                Ok(Ok(count)) => {
                    // Less than there was room for: that was all, and what comes next wakes again. An end stays one.
                    if count > 0 && count < room.len() {
                        something.clear_ready();
                    }
                    buffer.advance(count);
                    return Poll::Ready(Ok(()));
                }
                Ok(Err(error)) => return Poll::Ready(Err(error)),
                Err(_would_block) => {}
            }
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.send(context, |mut stream| stream.write(bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.send(context, |mut stream| stream.write_vectored(pieces))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.fd()?.get_ref().shutdown(Shutdown::Write))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    fn pair() -> (Socket, tokio::net::UnixStream) {
        let (one, other) = tokio::net::UnixStream::pair().unwrap();
        (Socket::new(one).unwrap(), other)
    }

    #[tokio::test]
    async fn what_does_not_fit_waits_for_room_and_reading_goes_on_meanwhile() {
        let (socket, mut peer) = pair();
        let (mut read, mut write) = tokio::io::split(socket);
        let sent: Vec<u8> = (0..4_000_000_u32).map(|n| n.to_le_bytes()[1]).collect();
        let other = tokio::spawn(async move {
            let (mut got, mut first) = (Vec::new(), [0; 1000]);
            peer.read_exact(&mut first).await.unwrap();
            peer.write_all(b"hello").await.unwrap();
            peer.read_to_end(&mut got).await.unwrap();
            peer.write_all(b" and bye").await.unwrap();
            (first, got)
        });
        // One task that waits for something to read from before the socket is full.
        let mut said = Vec::new();
        let writing = async {
            write.write_all(&sent).await.unwrap();
            write.shutdown().await.unwrap();
        };
        let (read, ()) = tokio::join!(read.read_to_end(&mut said), writing);
        read.unwrap();
        let (first, got) = other.await.unwrap();
        assert!([first.as_slice(), &got].concat() == sent);
        assert_eq!(said, b"hello and bye");
    }

    #[tokio::test]
    async fn a_peer_that_is_gone_is_an_end_and_an_error() {
        let (mut socket, peer) = pair();
        drop(peer);
        let mut byte = [0];
        assert_eq!(socket.read(&mut byte).await.unwrap(), 0);
        assert_eq!(socket.read(&mut byte).await.unwrap(), 0);
        assert_eq!(socket.write(&byte).await.unwrap_err().kind(), ErrorKind::BrokenPipe);
    }

    #[tokio::test]
    async fn a_full_buffer_does_not_hide_what_is_behind_it() {
        let (mut socket, mut peer) = pair();
        peer.write_all(b"abcd").await.unwrap();
        let mut two = [0; 2];
        for expected in [b"ab", b"cd"] {
            socket.read_exact(&mut two).await.unwrap();
            assert_eq!(&two, expected);
        }
        let (read, said) = tokio::join!(socket.read(&mut two), peer.write_all(b"e"));
        assert_eq!((read.unwrap(), two[0]), (1, b'e'));
        said.unwrap();
    }
}
