//! Body of a reply, decoded piece by piece as its bytes arrive.

use crate::error::HttpError;
use crate::head::Framing;

/// Longest line of the chunked coding: a size with its extensions, or a trailer.
const LONGEST_LINE: usize = 1024;
/// Most bytes of all trailers together.
const MOST_TRAILER: usize = 16 * 1024;

/// Where in the body the decoder is.
#[derive(Debug)]
pub(crate) enum Body {
    Length(u64),
    ChunkSize,
    ChunkData(u64),
    ChunkEnd,
    /// Bytes of trailer so far.
    Trailer(usize),
    Done,
}

impl Body {
    pub(crate) fn new(framing: Framing) -> Self {
        match framing {
            Framing::Length(0) => Self::Done,
            Framing::Length(length) => Self::Length(length),
            Framing::Chunked => Self::ChunkSize,
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        matches!(self, Self::Done)
    }

    /// Appends to `out` what `input` holds of the body and gives how many bytes of `input` are used up.
    /// The rest is to be offered again together with what follows.
    pub(crate) fn decode(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<usize, HttpError> {
        let mut used = 0;
        loop {
            let rest = &input[used..];
            match self {
                Self::Done => return Ok(used),
                Self::Length(left) | Self::ChunkData(left) => {
                    let take = usize::try_from(*left).unwrap_or(usize::MAX).min(rest.len());
                    out.extend_from_slice(&rest[..take]);
                    used += take;
                    *left -= take as u64;
                    if *left > 0 {
                        return Ok(used);
                    }
                    *self = if matches!(self, Self::Length(_)) { Self::Done } else { Self::ChunkEnd };
                }
                Self::ChunkSize => {
                    let Some(line) = next_line(rest)? else { return Ok(used) };
                    used += line.len() + 2;
                    *self = match chunk_size(line)? {
                        0 => Self::Trailer(0),
                        size => Self::ChunkData(size),
                    };
                }
                Self::ChunkEnd => {
                    let Some(line) = next_line(rest)? else { return Ok(used) };
                    if !line.is_empty() {
                        return Err(HttpError::Malformed("a chunk is longer than its size"));
                    }
                    used += 2;
                    *self = Self::ChunkSize;
                }
                Self::Trailer(so_far) => {
                    let Some(line) = next_line(rest)? else { return Ok(used) };
                    used += line.len() + 2;
                    *so_far += line.len() + 2;
                    if *so_far > MOST_TRAILER {
                        return Err(HttpError::TooLarge("trailers"));
                    }
                    if line.is_empty() {
                        *self = Self::Done;
                    }
                }
            }
        }
    }
}

/// The line at the front without its CRLF; `None` when it is not whole yet.
fn next_line(input: &[u8]) -> Result<Option<&[u8]>, HttpError> {
    match input.iter().position(|byte| *byte == b'\n') {
        Some(end) if end > 0 && input[end - 1] == b'\r' => Ok(Some(&input[..end - 1])),
        Some(_) => Err(HttpError::Malformed("a chunk line ends without a carriage return")),
        None if input.len() > LONGEST_LINE => Err(HttpError::TooLarge("a line of the chunked coding")),
        None => Ok(None),
    }
}

fn chunk_size(line: &[u8]) -> Result<u64, HttpError> {
    let digits = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii_end();
    if digits.is_empty() || digits.len() > 15 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return Err(HttpError::Malformed("a chunk size is not a number"));
    }
    Ok(digits
        .iter()
        .fold(0, |size, digit| size * 16 + u64::from((*digit as char).to_digit(16).unwrap_or_default())))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes `wire` cut into pieces of `step` bytes; gives the body and what is left behind it.
    fn decode(framing: Framing, wire: &[u8], step: usize) -> Result<(Vec<u8>, Vec<u8>, bool), HttpError> {
        let (mut body, mut out, mut held) = (Body::new(framing), Vec::new(), Vec::new());
        for piece in wire.chunks(step) {
            held.extend_from_slice(piece);
            let used = body.decode(&held, &mut out)?;
            held.drain(..used);
        }
        Ok((out, held, body.is_done()))
    }

    #[test]
    fn chunked_bodies_come_out_whole_however_they_are_cut() {
        let wire = b"5;ext=1\r\nhello\r\n1 \r\n,\r\nA\r\n wide worl\r\n1\r\nd\r\n0\r\nTrailer: x\r\n\r\nNEXT";
        for step in 1..wire.len() {
            let (out, rest, done) = decode(Framing::Chunked, wire, step).unwrap();
            assert_eq!(out, b"hello, wide world", "step {step}");
            assert!(done);
            assert!(b"NEXT".ends_with(&rest[..]) || rest == b"NEXT");
        }
    }

    #[test]
    fn lengths_are_exact() {
        let (out, rest, done) = decode(Framing::Length(3), b"abcdef", 2).unwrap();
        assert_eq!((out.as_slice(), rest.as_slice(), done), (&b"abc"[..], &b"def"[..], true));
        assert!(!decode(Framing::Length(7), b"abcdef", 2).unwrap().2);
    }

    #[test]
    fn broken_chunks_are_refused() {
        for wire in
            ["x\r\n", "\r\n", "-1\r\n", "5\nhello", "1\r\nab\r\n", "ffffffffffffffff\r\n", "+1\r\na\r\n"]
        {
            assert!(decode(Framing::Chunked, wire.as_bytes(), 100).is_err(), "{wire:?}");
        }
        assert!(decode(Framing::Chunked, &[b'1'; 2000], 100).is_err());
        let trailers = format!("0\r\n{}", "a: b\r\n".repeat(5000));
        assert!(decode(Framing::Chunked, trailers.as_bytes(), 100).is_err());
    }
}
