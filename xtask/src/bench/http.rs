//! A small blocking HTTP/1.1 client over a Unix socket that keeps its connection, and server-sent events on it.
//! Apart from the one that ships, so that what is measured does not measure itself.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Nothing that is measured takes this long; a wait beyond it is an error.
const PATIENCE: Timespec = Timespec { tv_sec: 120, tv_nsec: 0 };

/// One connection.
pub(crate) struct Http {
    stream: BufReader<Polled>,
}

/// A stream that waits as the client that ships does: for bytes, and not for whatever happens to the socket. A thread that
/// is blocked in a read is also woken when the other side has taken what was written before.
struct Polled(UnixStream);

impl Read for Polled {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&PATIENCE))? == 0 {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.0.read(buffer)
    }
}

/// How long the body is.
enum Length {
    Known(usize),
    Chunked,
}

impl Http {
    pub(crate) fn connect(socket: &str) -> Result<Self> {
        let stream = UnixStream::connect(socket).with_context(|| format!("no connection to {socket}"))?;
        stream.set_write_timeout(Some(Duration::from_secs(120)))?;
        Ok(Self { stream: BufReader::with_capacity(16 * 1024, Polled(stream)) })
    }

    /// One request and its whole response: status and body. `headers` are whole lines, each with its line end.
    pub(crate) fn request(
        &mut self,
        method: &str,
        path: &str,
        headers: &str,
        body: &[u8],
    ) -> Result<(u16, Vec<u8>)> {
        self.send(method, path, headers, body)?;
        let (status, length) = self.head()?;
        let mut text = Vec::new();
        match length {
            Length::Known(length) => {
                text.resize(length, 0);
                self.stream.read_exact(&mut text)?;
            }
            Length::Chunked => {
                Chunks { stream: &mut self.stream, left: 0, ended: false }.read_to_end(&mut text)?;
            }
        }
        Ok((status, text))
    }

    /// Opens an event stream and calls `each` with the data of every event, until it returns false or the
    /// stream ends.
    pub(crate) fn events(mut self, path: &str, mut each: impl FnMut(&str) -> Result<bool>) -> Result<()> {
        self.send("GET", path, "accept: text/event-stream\r\n", b"")?;
        let (status, _) = self.head()?;
        if status != 200 {
            bail!("GET {path} answered {status}");
        }
        let lines = BufReader::new(Chunks { stream: &mut self.stream, left: 0, ended: false }).lines();
        for line in lines {
            if let Some(data) = line?.strip_prefix("data:")
                && !each(data.trim_start())?
            {
                return Ok(());
            }
        }
        Ok(())
    }

    fn send(&mut self, method: &str, path: &str, headers: &str, body: &[u8]) -> Result<()> {
        let mut message = format!(
            "{method} {path} HTTP/1.1\r\nhost: askd\r\nx-askd-version: 1\r\n{headers}content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        )
        .into_bytes();
        message.extend_from_slice(body);
        self.stream.get_mut().0.write_all(&message)?;
        Ok(())
    }

    fn head(&mut self) -> Result<(u16, Length)> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        let status = line.split(' ').nth(1).and_then(|code| code.parse().ok());
        let Some(status) = status else { bail!("no HTTP answer but {line:?}") };
        let mut length = Length::Known(0);
        loop {
            line.clear();
            self.stream.read_line(&mut line)?;
            let field = line.trim_end();
            if field.is_empty() {
                return Ok((status, length));
            }
            let Some((name, value)) = field.split_once(':') else { bail!("no header but {field:?}") };
            if name.eq_ignore_ascii_case("content-length") {
                length = Length::Known(value.trim().parse()?);
            } else if name.eq_ignore_ascii_case("transfer-encoding") && value.trim() == "chunked" {
                length = Length::Chunked;
            }
        }
    }
}

/// The bytes of a chunked body.
struct Chunks<'a> {
    stream: &'a mut BufReader<Polled>,
    left: usize,
    ended: bool,
}

impl Read for Chunks<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.ended || buffer.is_empty() {
            return Ok(0);
        }
        if self.left == 0 {
            let mut line = String::new();
            self.stream.read_line(&mut line)?;
            self.left = usize::from_str_radix(line.trim(), 16).map_err(io::Error::other)?;
            if self.left == 0 {
                self.stream.read_line(&mut line)?;
                self.ended = true;
                return Ok(0);
            }
        }
        let most = buffer.len().min(self.left);
        let read = self.stream.read(&mut buffer[..most])?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= read;
        if self.left == 0 {
            let mut end = String::new();
            self.stream.read_line(&mut end)?;
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;
    use std::thread;

    /// Serves the given bytes to the first request of one connection.
    fn serve(answer: &'static str) -> (tempfile::TempDir, String) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s").to_str().unwrap().to_owned();
        let listener = UnixListener::bind(&path).unwrap();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 4096];
            let _ = stream.read(&mut request).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
        });
        (dir, path)
    }

    #[test]
    fn a_body_of_known_length_is_read() {
        let (_dir, path) = serve("HTTP/1.1 201 Created\r\nContent-Length: 4\r\n\r\nbody");
        let answer = Http::connect(&path).unwrap().request("POST", "/", "", b"x").unwrap();
        assert_eq!(answer, (201, b"body".to_vec()));
    }

    #[test]
    fn a_chunked_body_is_read() {
        let (_dir, path) =
            serve("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
        let answer = Http::connect(&path).unwrap().request("GET", "/", "", b"").unwrap();
        assert_eq!(answer, (200, b"abcde".to_vec()));
    }

    #[test]
    fn events_are_read_over_chunk_borders() {
        let (_dir, path) = serve(
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n8\r\nid: 1\nda\r\n8\r\nta: one\n\r\nb\r\n\ndata: two\n\r\n0\r\n\r\n",
        );
        let mut seen = Vec::new();
        let stream = Http::connect(&path).unwrap();
        stream
            .events("/", |data| {
                seen.push(data.to_owned());
                Ok(true)
            })
            .unwrap();
        assert_eq!(seen, ["one", "two"]);
    }
}
