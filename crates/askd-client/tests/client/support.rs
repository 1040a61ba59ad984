//! A server whose bytes the test gives.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use askd_client::{Connection, Places, bind_private_socket, make_private_directory};

/// Shared machines stall; nothing here takes a second otherwise.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A connected pair: the client's connection and the server's end.
pub(crate) fn pair() -> (Connection, UnixStream) {
    let (client, server) = UnixStream::pair().unwrap();
    let mut connection = Connection::over(client).unwrap();
    connection.set_timeout(PATIENCE);
    (connection, server)
}

/// Writes in the background, so that neither side has to wait for the other, and closes then.
pub(crate) fn write(mut server: UnixStream, bytes: impl Into<Vec<u8>>) -> std::thread::JoinHandle<()> {
    let bytes = bytes.into();
    std::thread::spawn(move || {
        let _ = server.write_all(&bytes);
    })
}

/// Listens as the daemon of these places does.
pub(crate) fn listen(places: &Places) -> UnixListener {
    make_private_directory(&places.run_dir()).unwrap();
    bind_private_socket(&places.ask_sock()).unwrap()
}

/// Head and body of one request; `None` at the end of the connection.
pub(crate) fn read_request(reader: &mut BufReader<UnixStream>) -> Option<(String, String)> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
    let mut body = vec![0; length.parse().unwrap()];
    reader.read_exact(&mut body).ok()?;
    Some((head, String::from_utf8(body).unwrap()))
}

pub(crate) fn reply(status: u16, body: &str) -> String {
    format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\nx-askd-version: 1\r\n\r\n{body}", body.len())
}
