//! As much of HTTP/1.1 as an agent's model client needs: one request per connection, bodies with a length or in
//! chunks, replies as JSON or as server-sent events.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use serde_json::Value;

pub(crate) struct Request {
    pub(crate) method: String,
    /// Without the query.
    pub(crate) path: String,
    pub(crate) body: Vec<u8>,
}

/// Reads one request; `None` when the client closed before sending one.
pub(crate) fn read(stream: &TcpStream) -> io::Result<Option<Request>> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace();
    let method = words.next().unwrap_or_default().to_owned();
    let target = words.next().unwrap_or_default();
    let path = target.split('?').next().unwrap_or_default().to_owned();

    let (mut length, mut chunked) = (0_usize, false);
    loop {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        let Some((name, value)) = header.trim_end().split_once(':') else { break };
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().map_err(io::Error::other)?,
            "transfer-encoding" => chunked = value.eq_ignore_ascii_case("chunked"),
            "expect" => (&mut &*stream).write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?,
            _ => {}
        }
    }
    let body = if chunked {
        read_chunks(&mut reader)?
    } else {
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        body
    };
    Ok(Some(Request { method, path, body }))
}

fn read_chunks(reader: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut size = String::new();
        reader.read_line(&mut size)?;
        let size = size.trim().split(';').next().unwrap_or_default().to_owned();
        let size = usize::from_str_radix(&size, 16).map_err(io::Error::other)?;
        let start = body.len();
        body.resize(start + size, 0);
        reader.read_exact(&mut body[start..])?;
        let mut end = String::new();
        reader.read_line(&mut end)?;
        if size == 0 {
            return Ok(body);
        }
    }
}

/// A whole JSON reply.
pub(crate) fn reply(stream: &mut TcpStream, status: &str, body: &Value) -> io::Result<()> {
    let body = body.to_string();
    write!(
        stream,
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )?;
    stream.flush()
}

/// The head of a stream of events, which ends with the connection.
pub(crate) fn begin_events(stream: &mut TcpStream) -> io::Result<()> {
    stream.write_all(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\nconnection: close\r\n\r\n",
    )
}

/// One event; its name is the `type` in its data.
pub(crate) fn event(stream: &mut TcpStream, data: &Value) -> io::Result<()> {
    let name = data["type"].as_str().unwrap_or_default();
    stream.write_all(format!("event: {name}\ndata: {data}\n\n").as_bytes())
}

/// One event that has data and no name.
pub(crate) fn data(stream: &mut TcpStream, data: &str) -> io::Result<()> {
    stream.write_all(format!("data: {data}\n\n").as_bytes())
}
